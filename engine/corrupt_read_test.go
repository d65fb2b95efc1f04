package engine

import (
	"bytes"
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// flipReads damages one byte of what is read, while the file is sound: a bad
// cable, a bad DIMM.
type flipReads struct {
	file atomic.Pointer[string]
	off  atomic.Int64
	once atomic.Bool // strike once only
	// struck is set when a byte was damaged.
	struck atomic.Bool
}

func (f *flipReads) aim(file string, off int64) {
	f.off.Store(off)
	f.file.Store(&file)
}

func (f *flipReads) filter(name string, off int64, p []byte) {
	file, at := f.file.Load(), f.off.Load()
	if file == nil || *file != name || at < off || at >= off+int64(len(p)) {
		return
	}
	if f.once.Load() {
		f.file.Store(nil)
	}
	p[at-off] ^= flipMask(at)
	f.struck.Store(true)
}

// rangeCase is a part of block 4: its second plane has two chunks.
var rangeCases = []struct {
	plane       string
	from, bytes int64
}{
	{"k", 0, 10}, {"k", 33332, 1}, {"v", 0, 1}, {"v", 65530, 12}, {"v", 66000, 667}, {"v", 100, 65536},
}

// getRanges reads parts of block 4 and reports wrong bytes, and how many
// parts were OK.
func getRanges(t *testing.T, n *Namespace) (ok int) {
	t.Helper()
	want := contentOf(4, 0, 100000)
	planes := map[string][]byte{"k": want[:33333], "v": want[33333:]}
	for _, c := range rangeCases {
		p := bytes.Repeat([]byte{0xa5}, int(c.bytes))
		r := n.Get(context.Background(), []GetBlock{{Hash: hashOf(4), Parts: []Part{
			{Plane: c.plane, OffsetBytes: c.from, LengthBytes: c.bytes, Spans: [][]byte{p}},
		}}}, GetOptions{})[0]
		switch {
		case r.Status == StatusOK && !bytes.Equal(p, planes[c.plane][c.from:c.from+c.bytes]):
			t.Errorf("range %+v: WRONG BYTES with status OK", c)
		case r.Status == StatusOK:
			ok++
		case r.Status != StatusCorrupt:
			t.Errorf("range %+v: status %v (%v)", c, r.Status, r.Err)
		case !bytes.Equal(p, bytes.Repeat([]byte{0xa5}, len(p))):
			t.Errorf("range %+v: status %v, and the destination was written", c, r.Status)
		}
	}
	return ok
}

// TestLaw1FlipWhileRead damages every byte of every extent on its way to the
// store, for whole blocks and for ranges. Padding is nobody's: only the
// check of a whole extent sees it.
func TestLaw1FlipWhileRead(t *testing.T) {
	v := newVictim(t)
	tally := faulttest.New(t)
	var flip flipReads
	o := victimOptions(vfs.WithReadFilter(v.clone(), flip.filter))
	o.ReadOnly = true // nothing is quarantined: each byte meets the same store
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for _, b := range v.blocks {
		e := v.entries[b.id]
		if e.IsAlias() {
			continue
		}
		file := disk.SegmentName(e.Address.Segment)
		head := e.Address.Offset() + int64(e.HeaderPages)*disk.PageBytes
		for _, r := range []region{
			{from: e.Address.Offset(), to: e.Address.Offset() + 256, step: 1},
			{from: e.Address.Offset() + 256, to: head, step: 13},
			{from: head, to: e.Address.Offset() + e.Bytes(), step: sparse},
		} {
			if fullTests {
				r.step = 1
			}
			for _, off := range r.offsets() {
				fault := tally.Try(fmt.Sprintf("bit of %s at %d while it is read", file, off))
				flip.aim(file, off)
				vd := &verdict{status: map[int]Status{}}
				vd.get(n, b, false)
				tally.WrongBytes(vd.wrongBytes)
				ranges := len(rangeCases)
				if b.id == 4 {
					ranges = getRanges(t, n)
				}
				if vd.status[b.id] == StatusOK && s.vol.VerifyExtent(context.Background(), e.Address, e.HeaderSum) == nil {
					vd.wrongf("nobody has noticed")
				}
				if off < head && (vd.status[b.id] == StatusOK || b.id == 4 && ranges > 0) {
					vd.wrongf("read with a damaged header")
				}
				if len(vd.wrong) > 0 || t.Failed() {
					t.Fatalf("block %d, %s offset %d: %q", b.id, file, off, vd.wrong)
				}
				if flip.struck.Swap(false) {
					fault.Fire()
				}
				fault.Survive()
			}
		}
	}
	tally.Settle()
	flip.file.Store(nil)
	vd := &verdict{status: map[int]Status{}}
	v.readAll(s, vd)
	if len(vd.lost()) > 0 || getRanges(t, n) != len(rangeCases) {
		t.Fatalf("the damage outlived the reads: %v %q", vd.lost(), vd.reported)
	}
}

// TestFaultFlipOnce: what the next read does not repeat costs a read, not a block.
func TestFaultFlipOnce(t *testing.T) {
	v := newVictim(t)
	var flip flipReads
	s := mustOpen(t, victimOptions(vfs.WithReadFilter(v.clone(), flip.filter)))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	flip.once.Store(true)
	e := v.entries[4]
	tally := faulttest.New(t)
	for _, off := range []int64{e.Address.Offset(), e.Address.Offset() + 5000, e.Address.Offset() + e.Bytes() - disk.PageBytes} {
		fault := tally.Try(fmt.Sprintf("bit at %d once", off))
		flip.aim(disk.SegmentName(e.Address.Segment), off)
		vd := &verdict{status: map[int]Status{}}
		vd.get(n, victimBlock{4, 4, 0, 100000}, false)
		if vd.status[4] != StatusOK || len(vd.wrong) > 0 {
			t.Errorf("offset %d: %v %q %q", off, vd.status, vd.wrong, vd.reported)
		}
		if flip.struck.Swap(false) {
			fault.Fire()
		}
		tally.WrongBytes(vd.wrongBytes)
		fault.Survive()
	}
	if got := s.count.rereadsSaved.Load(); got != 3 {
		t.Errorf("%d reads saved by reading again, want 3", got)
	}
	if got := s.Stats().Quarantined; got != 0 {
		t.Errorf("%d blocks quarantined", got)
	}
}

// TestStorm: a path that spoils everything must not empty the store.
func TestStorm(t *testing.T) {
	var spoil atomic.Bool
	fs := vfs.NewMem()
	o := testOptions(vfs.WithReadFilter(fs, func(name string, _ int64, p []byte) {
		if spoil.Load() && len(name) > 4 && name[len(name)-4:] == ".seg" {
			p[len(p)-1] ^= 1 // the padding of headers, the last byte of planes
			p[len(p)/2] ^= 1
		}
	}))
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	const blocks = 3 * stormCount
	for id := range blocks {
		mustPut(t, n, blockOf(id, 0, 9000))
	}
	mustFlush(t, s)
	spoil.Store(true)
	seen := map[Status]int{}
	for id := range blocks {
		_, r := getBlock(t, n, id, 9000)
		seen[r.Status]++
	}
	spoil.Store(false)
	if h := s.Health(); h.State != HealthAllMiss {
		t.Fatalf("health %v after %v", h, seen)
	}
	if seen[StatusOK] != 0 || seen[StatusCorrupt] != stormCount+1 || seen[StatusMiss] != blocks-stormCount-1 {
		t.Errorf("statuses %v", seen)
	}
	if got := s.Stats().Quarantined; got != stormCount {
		t.Errorf("%d blocks quarantined, want %d", got, stormCount)
	}
	wantStatus(t, n, blocks-1, 9000, StatusMiss)
	s.Resume()
	for id := stormCount; id < blocks; id++ {
		wantBlock(t, n, id, 0, 9000)
	}
	wantStatus(t, n, 0, 9000, StatusCorrupt) // quarantined before the storm was called one
}
