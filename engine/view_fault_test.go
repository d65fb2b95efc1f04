package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// viewCase is a way of storing blocks.
type viewCase struct {
	compression Compression
	layout      layout.Layout // of one plane or two
	size        int
}

// viewCases are blocks that are read together, by themselves, in parts at
// once, and decoded where they lie with room and without.
func viewCases() []viewCase {
	cases := []viewCase{
		{CompressionOff, testLayout(), 9000},
		{CompressionS2, testLayout(), 9000},
		{CompressionOff, oneLayout(), 900_001},
		{CompressionZstd, oneLayout(), 200_000},
	}
	if !testing.Short() {
		cases = append(cases, viewCase{CompressionZstd, testLayout(), 9000}, viewCase{CompressionS2, testLayout(), 900_001}, viewCase{CompressionOff, testLayout(), 200_000})
	}
	return cases
}

// viewBatch is six blocks of a case in a store whose reads can be damaged.
type viewBatch struct {
	viewCase
	s    *Store
	n    *Namespace
	flip *flipReads
	ids  []int
}

func newViewBatch(t *testing.T, c viewCase) *viewBatch {
	t.Helper()
	b := &viewBatch{viewCase: c, flip: &flipReads{}}
	o := testOptions(vfs.WithReadFilter(vfs.NewMem(), b.flip.filter))
	o.MaxBlockBytes, o.SegmentBytes, o.CapacityBytes, o.MaxInflightBytes = 1*mib, 4*mib, 64*mib, 16*mib
	b.s = mustOpen(t, o)
	var err error
	if b.n, err = b.s.Namespace(context.Background(), c.layout, "tenant", NamespaceOptions{Compression: c.compression}); err != nil {
		t.Fatal(err)
	}
	for id := range 6 {
		put := PutBlock{Hash: hashOf(id)}
		for i, p := range b.planes(id) {
			put.Planes = append(put.Planes, PlaneData{Name: c.layout.Planes[i].Name, Spans: [][]byte{p}})
		}
		mustPut(t, b.n, put)
		b.ids = append(b.ids, id)
	}
	mustFlush(t, b.s)
	return b
}

// planes are the bytes of block id, which compress well.
func (b *viewBatch) planes(id int) [][]byte {
	p := viewContent(4*id, 0, b.size)
	if len(b.layout.Planes) == 1 {
		return [][]byte{p}
	}
	return [][]byte{p[:b.size/3], p[b.size/3:]}
}

// shows reports whether an OK view has the block's bytes, and releases it.
func (b *viewBatch) shows(v *View, id int) bool {
	ok := v.Status == StatusOK && slices.EqualFunc(v.Planes, b.planes(id), bytes.Equal)
	v.Release()
	return ok
}

// TestLaw1View damages a byte of each part of a block while it is read, alone
// and among neighbours: seen once it costs a read, seen always that block and no
// other is corrupt, and nothing of it is lent.
func TestLaw1View(t *testing.T) {
	tally := faulttest.New(t)
	for _, c := range viewCases() {
		for _, once := range []bool{true, false} {
			for _, alone := range []bool{true, false} {
				b := newViewBatch(t, c)
				for id := range 6 {
					b.damageOne(t, tally, id, once, alone)
				}
				if got := b.s.Stats().Quarantined; !once && got != 6 {
					t.Errorf("%v, %d bytes: %d quarantined, want 6", c.compression, c.size, got)
				}
				wantAllReleased(t, b.s)
				mustClose(t, b.s)
			}
		}
	}
	tally.Settle()
}

// damageOne damages a byte of block id: of its header, and of its payload from
// the beginning to the end, by id.
func (b *viewBatch) damageOne(t *testing.T, tally *faulttest.Tally, id int, once, alone bool) {
	t.Helper()
	e := entryOf(t, b.s, b.n, id)
	ext, _, err := b.s.vol.ReadExtent(e.Address)
	if err != nil {
		t.Fatal(err)
	}
	at := e.Address.Offset() + 100
	if id > 0 { // within a chunk: the padding of a plane is nobody's
		off, n := ext.StoredSpan((id - 1) * (len(ext.Chunks) - 1) / 4)
		at = e.Address.Offset() + int64(e.HeaderPages)*disk.PageBytes + off + int64(id*(n-1)/5)
	}
	name := fmt.Sprintf("byte %d of block %d of %d, %d bytes, once %v, alone %v", at-e.Address.Offset(), id, b.size, e.Bytes(), once, alone)
	fault := tally.Try(name)
	b.flip.once.Store(once)
	b.flip.aim(disk.SegmentName(e.Address.Segment), at)
	ids := b.ids
	if alone {
		ids = []int{id}
	}
	views := b.n.View(context.Background(), hashesOf(ids...), ViewOptions{WantSeal: true})
	b.flip.file.Store(nil)
	if b.flip.struck.Swap(false) {
		fault.Fire()
	}
	for i := range views {
		gone := !once && ids[i] <= id // those before it are in quarantine by now
		switch {
		case gone && views[i].Status == StatusOK:
			if !b.shows(&views[i], ids[i]) {
				tally.WrongBytes(1)
			}
			t.Errorf("%s: block %d is OK", name, ids[i])
		case gone && (views[i].Status != StatusCorrupt || !errors.Is(views[i].Err, ErrCorrupt) || views[i].Planes != nil || views[i].held != nil):
			t.Errorf("%s: block %d: %v %v, %d planes lent", name, ids[i], views[i].Status, views[i].Err, len(views[i].Planes))
		case !gone && !b.shows(&views[i], ids[i]):
			t.Errorf("%s: block %d: %v %v", name, ids[i], views[i].Status, views[i].Err)
		}
	}
	fault.Survive()
}

// TestFaultViewReadFails: a read that fails keeps the block, lends nothing of
// it, and hurts no neighbour.
func TestFaultViewReadFails(t *testing.T) {
	var failing atomic.Pointer[rotPlace]
	var struck atomic.Bool
	mem := vfs.NewMem()
	o := testOptions(vfs.WithHook(mem, func(op vfs.Op) error {
		at := failing.Load()
		if at != nil && op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, at.file) && op.Offset < at.to && at.from < op.Offset+int64(op.Length) {
			struck.Store(true)
			return syscall.EIO
		}
		return nil
	}))
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for id := range 4 {
		mustPut(t, n, blockOf(id, 0, 9000))
	}
	mustFlush(t, s)
	tally := faulttest.New(t)
	for id := range 4 {
		fault := tally.Try(fmt.Sprintf("EIO in block %d", id))
		e := entryOf(t, s, n, id)
		failing.Store(&rotPlace{file: disk.SegmentName(e.Address.Segment), from: e.Address.Offset() + 5000, to: e.Address.Offset() + 5001})
		views := n.View(context.Background(), hashesOf(0, 1, 2, 3), ViewOptions{})
		failing.Store(nil)
		if struck.Swap(false) {
			fault.Fire()
		}
		for i := range views {
			if i == id {
				wantNothingLent(t, &views[i], StatusIOError)
			} else {
				wantShown(t, &views[i], i, 0, 9000)
			}
		}
		v := viewOne(n, hashOf(id))
		wantShown(t, &v, id, 0, 9000)
		fault.Survive()
	}
	if s.Stats().Quarantined != 0 {
		t.Error("blocks whose reads failed were quarantined")
	}
	wantAllReleased(t, s)
}

// TestFaultViewBadPath: bytes that one path returns wrong come by another, and
// the first is demoted, as with a get.
func TestFaultViewBadPath(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for id := range 3 {
		mustPut(t, n, blockOf(id, 0, 9000))
	}
	mustFlush(t, s)
	first, second := fakePaths(s)
	tally := faulttest.New(t)
	fault := tally.Try("a path returns wrong bytes")
	first.flip.Store(true)
	v := viewOne(n, hashOf(0))
	if first.reads.Load() > 0 {
		fault.Fire()
	}
	wantShown(t, &v, 0, 0, 9000)
	if st := s.Stats(); st.PathRead != "second" || st.Quarantined != 0 || first.reads.Load() != readTriesMax {
		t.Errorf("path %s, %d blocks quarantined, %d reads by the bad path", st.PathRead, st.Quarantined, first.reads.Load())
	}
	fault.Survive()
	// The last path stays: what it returns wrong is quarantined.
	fault = tally.Try("the last path returns wrong bytes")
	second.flip.Store(true)
	before := second.reads.Load()
	v = viewOne(n, hashOf(1))
	if second.reads.Load() > before {
		fault.Fire()
	}
	wantNothingLent(t, &v, StatusCorrupt)
	if got := s.Stats().Quarantined; got != 1 {
		t.Errorf("%d blocks quarantined", got)
	}
	second.flip.Store(false)
	v = viewOne(n, hashOf(2))
	wantShown(t, &v, 2, 0, 9000)
	fault.Survive()
	wantAllReleased(t, s)
}
