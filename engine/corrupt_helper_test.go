package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// victimBlock is a block of a victimStore: a key, and whose content it has.
type victimBlock struct {
	id, content, variant, size int
}

func (b victimBlock) want() []byte { return contentOf(b.content, b.variant, b.size) }

// victimStore is a small closed store, one of each artifact in it, that tests
// damage clones of.
type victimStore struct {
	fs     *vfs.Mem
	blocks []victimBlock
	gone   []victimBlock // dropped: must never be OK
	// entries is where the index has them, by id.
	entries map[int]index.Entry
	// segments: the first is sealed, the second not.
	segments [2]uint64
	// events of an Open and words of Verify about the undamaged store, to tell
	// those of damage.
	events   map[string]int
	verified []string
	// verifiedNotes are the notes of Verify.
	verifiedNotes []string
	// past is what the directory held earlier.
	past []*vfs.Mem
}

func victimOptions(fs vfs.FS) Options {
	o := testOptions(fs)
	o.MaxBlockBytes = 128 * kib
	// A sweep finds thousands of bad blocks: let each be alone in its window.
	var calls atomic.Int64
	o.private.now = func() time.Time {
		return time.Unix(1_700_000_000, 0).Add(time.Duration(calls.Add(1)) * stormWindow)
	}
	return o
}

// newVictim makes the store: blocks of one and several chunks, aliases within
// a segment and across, a dropped block, and one dropped and put again.
func newVictim(t testing.TB) *victimStore {
	t.Helper()
	v := &victimStore{fs: vfs.NewMem(), entries: map[int]index.Entry{}}
	s := mustOpen(t, victimOptions(v.fs))
	n := mustSpace(t, s)
	v.put(t, n, victimBlock{1, 1, 0, 3}, victimBlock{2, 2, 0, 4095}, victimBlock{3, 3, 0, 9000}, victimBlock{4, 4, 0, 100000})
	mustFlush(t, s)
	v.past = append(v.past, v.clone())
	v.put(t, n, victimBlock{5, 3, 0, 9000}, victimBlock{6, 6, 0, 5000}, victimBlock{9, 9, 0, 7000})
	v.drop(t, n, 6, 9)
	mustFlush(t, s)
	mustClose(t, s)
	v.past = append(v.past, v.clone())

	s = mustOpen(t, victimOptions(v.fs)) // seals the first segment
	n = mustSpace(t, s)
	v.put(t, n, victimBlock{7, 7, 0, 20000}, victimBlock{8, 3, 0, 9000}, victimBlock{6, 6, 1, 5000}, victimBlock{10, 10, 0, 6000})
	v.drop(t, n, 10)
	mustFlush(t, s)
	v.segments = [2]uint64{v.locate(t, s, n, 1).Address.Segment, v.locate(t, s, n, 7).Address.Segment}
	for _, b := range v.blocks {
		v.entries[b.id] = v.locate(t, s, n, b.id)
	}
	if !v.entries[5].IsAlias() || !v.entries[8].IsAlias() || v.segments[0] == v.segments[1] {
		t.Fatalf("the store is not what the tests need: %+v", v)
	}
	mustClose(t, s)
	v.setBaseline(t)
	return v
}

// setBaseline notes what an Open of the undamaged store says.
func (v *victimStore) setBaseline(t testing.TB) {
	t.Helper()
	s := mustOpen(t, victimOptions(v.clone()))
	defer mustClose(t, s)
	v.events = eventCounts(s)
	v.verified = verifyLines(t, v.clone())
	r := mustVerify(t, v.clone())
	v.verifiedNotes = append(r.Notes, fmt.Sprint(r.Segments.NonzeroUnusedBytes, " bytes in unused space"))
}

func (v *victimStore) put(t testing.TB, n *Namespace, blocks ...victimBlock) {
	t.Helper()
	for _, b := range blocks {
		p := blockOf(b.content, b.variant, b.size)
		p.Hash = hashOf(b.id)
		mustPut(t, n, p)
		v.blocks = append(v.blocks, b)
	}
}

func (v *victimStore) drop(t testing.TB, n *Namespace, ids ...int) {
	t.Helper()
	for _, id := range ids {
		done := make(chan Result, 1)
		go func() { done <- n.Drop(context.Background(), [][]byte{hashOf(id)})[0] }()
		for r := (Result{}); r.Status == statusNone; {
			select {
			case r = <-done:
				if r.Status != StatusOK {
					t.Fatalf("drop %d: %v %v", id, r.Status, r.Err)
				}
			default:
				n.s.syncOnce()
			}
		}
		keep := v.blocks[:0:0]
		for _, b := range v.blocks {
			if b.id == id {
				v.gone = append(v.gone, b)
			} else {
				keep = append(keep, b)
			}
		}
		v.blocks = keep
	}
}

func (v *victimStore) locate(t testing.TB, s *Store, n *Namespace, id int) index.Entry {
	t.Helper()
	found, err := s.idx.Get(context.Background(), []index.Key{{Namespace: n.info.Number, Hash: string(hashOf(id))}}, false)
	if err != nil || !found[0].OK {
		t.Fatalf("locate %d: %v %v", id, found, err)
	}
	return found[0].Entry
}

func (v *victimStore) clone() *vfs.Mem { return v.fs.CrashClone(vfs.CrashOptions{KeepAll: true}) }

// variant is a copy of the store with something done to its files, which an
// Open may have to say something about.
func (v *victimStore) variant(t testing.TB, edit func(fs *vfs.Mem)) *victimStore {
	t.Helper()
	w := *v
	w.fs = v.clone()
	edit(w.fs)
	w.setBaseline(t)
	return &w
}

// killed is a copy whose last owner was killed: one block is durable and not
// in the index, a drop likewise, two blocks are not even durable.
func (v *victimStore) killed(t testing.TB) *victimStore {
	t.Helper()
	w := *v
	w.fs, w.entries = v.clone(), maps.Clone(v.entries)
	s := mustOpen(t, victimOptions(w.fs))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	w.put(t, n, victimBlock{11, 11, 0, 5000}, victimBlock{12, 12, 0, 70000})
	w.drop(t, n, 11)
	w.put(t, n, victimBlock{13, 13, 0, 6000}, victimBlock{14, 14, 0, 3})
	s.mu.Lock()
	for _, r := range s.pending {
		if r.Kind == recordPut && r.Key.Hash != string(hashOf(11)) {
			for _, b := range w.blocks {
				if string(hashOf(b.id)) == r.Key.Hash {
					w.entries[b.id] = r.Entry
				}
			}
		}
	}
	s.mu.Unlock()
	w.fs = w.clone()
	w.setBaseline(t)
	return &w
}

// verdict is what came of a damaged store.
type verdict struct {
	status   map[int]Status
	wrong    []string // what must never be
	reported []string // where the damage was seen
	// wrongBytes were served as good.
	wrongBytes int64
	refused    error  // by Open
	health     Health // before Close
	// ioErrors may be answered: the device fails.
	ioErrors bool
}

func (v *verdict) wrongf(format string, args ...any) {
	v.wrong = append(v.wrong, fmt.Sprintf(format, args...))
}

// readVictim reads a whole block into poisoned memory.
func readVictim(n *Namespace, b victimBlock) ([]byte, GetResult) {
	p := bytes.Repeat([]byte{0xa5}, b.size)
	cut := b.size / 3
	return p, n.Get(context.Background(), []GetBlock{{Hash: hashOf(b.id), Parts: []Part{
		{Plane: "k", Spans: [][]byte{p[:cut]}}, {Plane: "v", Spans: [][]byte{p[cut:]}},
	}}}, GetOptions{})[0]
}

// get reads one block, and judges.
func (vd *verdict) get(n *Namespace, b victimBlock, mustMiss bool) {
	p, r := readVictim(n, b)
	if mustMiss { // the key may have been put again, with other bytes
		if r.Status == StatusOK && bytes.Equal(p, b.want()) {
			vd.wrongf("block %d was dropped and is back", b.id)
		}
		return
	}
	vd.judge(b, p, r, b.want())
	vd.status[b.id] = r.Status
	if r.Status != StatusOK {
		vd.tail(n, b)
	}
}

// tail reads the last byte of each plane alone: the path of ranges.
func (vd *verdict) tail(n *Namespace, b victimBlock) {
	want, cut := b.want(), b.size/3
	p := []byte{0xa5, 0xa5}
	r := n.Get(context.Background(), []GetBlock{{Hash: hashOf(b.id), Parts: []Part{
		{Plane: "k", OffsetBytes: int64(cut - 1), LengthBytes: 1, Spans: [][]byte{p[:1]}},
		{Plane: "v", OffsetBytes: int64(b.size - cut - 1), LengthBytes: 1, Spans: [][]byte{p[1:]}},
	}}}, GetOptions{})[0]
	vd.judge(b, p, r, []byte{want[cut-1], want[b.size-1]})
}

// wrongBytes counts the bytes in which two slices of one length differ.
func wrongBytes(got, want []byte) (n int64) {
	for i := range got {
		if got[i] != want[i] {
			n++
		}
	}
	return n
}

func (vd *verdict) judge(b victimBlock, p []byte, r GetResult, want []byte) {
	switch r.Status {
	case StatusOK:
		if n := wrongBytes(p, want); n > 0 {
			vd.wrongBytes += n
			vd.wrongf("block %d: %d WRONG BYTES with status OK", b.id, n)
		}
		return
	case StatusMiss:
	case StatusCorrupt:
		vd.reported = append(vd.reported, r.Err.Error())
		if bad := (*BlockError)(nil); !errors.As(r.Err, &bad) || bad.File == "" || bad.Offset < 0 {
			vd.wrongf("block %d: %v does not say where", b.id, r.Err)
		}
	case StatusIOError:
		vd.reported = append(vd.reported, r.Err.Error())
		if !vd.ioErrors {
			vd.wrongf("block %d: %v for damage", b.id, r.Err)
		}
	default:
		vd.wrongf("block %d: status %v (%v) for damage", b.id, r.Status, r.Err)
	}
	if !bytes.Equal(p, bytes.Repeat([]byte{0xa5}, len(p))) {
		vd.wrongf("block %d: status %v, and the destination was written", b.id, r.Status)
	}
}

// readAll gets every block of an open store, the dropped ones too.
func (v *victimStore) readAll(s *Store, vd *verdict) {
	n, err := s.Namespace(context.Background(), testLayout(), "tenant", NamespaceOptions{})
	if err != nil {
		vd.wrongf("namespace: %v", err)
		return
	}
	for _, b := range v.blocks {
		vd.get(n, b, false)
	}
	for _, b := range v.gone {
		vd.get(n, b, true)
	}
}

// examine opens a damaged store, gets every block and closes. An Open that
// refuses has reported; who must open judges by status being empty.
func (v *victimStore) examine(fs *vfs.Mem) *verdict {
	vd := &verdict{status: map[int]Status{}}
	s, err := Open("mem", victimOptions(fs))
	if err != nil {
		vd.reported = append(vd.reported, "open: "+err.Error())
		return vd
	}
	v.readAll(s, vd)
	for m, n := range eventCounts(s) {
		if n > v.events[m] {
			vd.reported = append(vd.reported, m)
		}
	}
	if err := s.Close(context.Background()); err != nil {
		vd.wrongf("close: %v", err)
	}
	return vd
}

func eventCounts(s *Store) map[string]int {
	c := map[string]int{}
	for _, e := range s.Events(0) {
		if e.Kind != EventOpened {
			c[e.String()]++
		}
	}
	return c
}

// lost lists the blocks that are not OK.
func (vd *verdict) lost() (ids []int) {
	for id, st := range vd.status {
		if st != StatusOK {
			ids = append(ids, id)
		}
	}
	sort.Ints(ids)
	return ids
}

// owners lists the blocks whose bytes or header lie at an offset of a
// segment: only they may be lost to damage there.
func (v *victimStore) owners(segment uint64, off int64) (ids []int) {
	within := func(e index.Extent) bool {
		at := e.Address.Offset()
		return e.Address.Segment == segment && off >= at && off < at+e.Bytes()
	}
	for id, e := range v.entries {
		if within(e.Extent) || e.IsAlias() && within(e.Own) {
			ids = append(ids, id)
		}
	}
	sort.Ints(ids)
	return ids
}

// subset reports whether all of a are in b.
func subset(a, b []int) bool {
	in := map[int]bool{}
	for _, x := range b {
		in[x] = true
	}
	for _, x := range a {
		if !in[x] {
			return false
		}
	}
	return true
}

// flipByte inverts one bit of a byte; which one goes with the offset.
func flipByte(t testing.TB, fs vfs.FS, name string, off int64) {
	t.Helper()
	patch(t, fs, name, off, func(p []byte) { p[0] ^= flipMask(off) }, 1)
}

func flipMask(off int64) byte { return 1 << ((off*5 + off/4096) % 8) }

// patch edits n bytes of a file in place.
func patch(t testing.TB, fs vfs.FS, name string, off int64, edit func(p []byte), n int) {
	t.Helper()
	f, err := fs.Open(name, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, n)
	if _, err := f.ReadAt(p, off); err != nil {
		t.Fatalf("read %s at %d: %v", name, off, err)
	}
	edit(p)
	if _, err := f.WriteAt(p, off); err != nil {
		t.Fatal(err)
	}
}

func readWhole(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	i, err := fs.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, i.SizeBytes)
	f, err := fs.Open(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if len(p) > 0 {
		if _, err := f.ReadAt(p, 0); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// filesUnder lists the files of a directory of the store, sorted.
func filesUnder(t testing.TB, fs vfs.FS, dir, suffix string) (out []string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasSuffix(n, suffix) {
			out = append(out, dir+"/"+n)
		}
	}
	return out
}

// footerRange is where the footer of the sealed segment lies.
func (v *victimStore) footerRange(t testing.TB) (start, end int64) {
	t.Helper()
	p := readWhole(t, v.fs, disk.SegmentName(v.segments[0]))
	end = int64(len(p))
	for start = end - disk.PageBytes; start > 0; start -= disk.PageBytes {
		if disk.IsFooterPage(p[start:]) {
			return start, end
		}
	}
	t.Fatal("no footer")
	return 0, 0
}

// verifyFinds is what the offline check says of a damaged copy and not of the
// sound store: it sees what no get reads, the padding, the headers of aliases,
// footers and tombstones.
func (v *victimStore) verifyFinds(t testing.TB, fs vfs.FS) (found []string) {
	t.Helper()
	for _, line := range verifyLines(t, fs) {
		if !slices.Contains(v.verified, line) {
			found = append(found, line)
		}
	}
	return found
}

func verifyLines(t testing.TB, fs vfs.FS) (lines []string) {
	t.Helper()
	r, err := verify(context.Background(), "mem", VerifyOptions{Workers: 1, NoDiagnosis: true}, victimOptions(fs).private)
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	for _, d := range r.Damage {
		lines = append(lines, d.String())
	}
	return append(lines, r.Notes...)
}
