package disk

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sealstone/sealstone/internal/vfs"
)

var errStop = errors.New("the power is gone")

// promises is what a volume has answered so far, and so must keep.
type promises struct {
	created  map[uint64]bool
	durable  map[uint64][]FooterEntry
	buried   map[uint64]int // tombstones
	sealed   map[uint64][]FooterEntry
	leaving  map[uint64]bool // Unlink was called
	unlinked map[uint64]bool // and has returned
}

func newPromises() *promises {
	return &promises{
		created: map[uint64]bool{}, durable: map[uint64][]FooterEntry{}, buried: map[uint64]int{},
		sealed: map[uint64][]FooterEntry{}, leaving: map[uint64]bool{}, unlinked: map[uint64]bool{},
	}
}

// live goes through the life of three segments until the first error.
func (p *promises) live(fs vfs.FS) error {
	v, err := OpenVolume(testOptions(fs))
	if err != nil {
		return err
	}
	defer func() { _ = v.Close() }()
	for _, id := range []uint64{1, 2, 257} {
		w, err := v.Create(id, ClassFresh)
		if err != nil {
			return err
		}
		p.created[id] = true
		err = p.fill(v, w)
		if err != nil {
			return errors.Join(err, w.Close())
		}
	}
	for _, id := range []uint64{1, 257} {
		p.leaving[id] = true
		if err := v.Unlink(id); err != nil {
			return err
		}
		p.unlinked[id] = true
	}
	return nil
}

func (p *promises) fill(v *Volume, w *Writer) error {
	id := w.ID()
	for n, size := range []int{5000, 1, 70000, 9000} {
		entry, ok, err := put(w, id*100+uint64(n), size)
		if err != nil || !ok {
			return fmt.Errorf("put: ok %v: %w", ok, err)
		}
		if n%2 == 1 {
			continue
		}
		if err := w.Sync(); err != nil {
			return err
		}
		p.durable[id] = append(p.durable[id], entry)
		x := Tombstone{Kind: TombstoneDead, Page: entry.Page, Seq: entry.Seq}
		if err := v.AppendTombstones(id, []Tombstone{x}); err != nil {
			return err
		}
		p.buried[id]++
	}
	entries := w.Entries()[:3]
	if err := w.Seal(entries); err != nil {
		return err
	}
	p.sealed[id] = entries
	return nil
}

// check opens what a crash left and compares it with what was promised.
func (p *promises) check(t *testing.T, m *vfs.Mem) {
	t.Helper()
	v, err := OpenVolume(testOptions(m))
	if err != nil {
		t.Fatalf("open after crash: %v", err)
	}
	defer func() { must(t, v.Close()) }()
	for id := range p.created {
		if _, there := v.Segment(id); there || !p.leaving[id] {
			p.checkSegment(t, v, id)
		}
		if _, there := v.Segment(id); there && p.unlinked[id] {
			t.Fatalf("segment %d is back", id)
		}
	}
	if len(v.Strange()) != 0 {
		t.Fatalf("strange: %v", v.Strange())
	}
	for _, info := range v.Segments() {
		if _, err := v.ReadFooter(info.ID); info.Sealed && err != nil {
			t.Fatalf("segment %d ends in a trailer without its footer: %v", info.ID, err)
		}
		sealLeftover(t, v, info)
	}
	if v.AllocatedBytes() != m.UsedBytes() {
		t.Fatalf("%d bytes allocated, the file system holds %d", v.AllocatedBytes(), m.UsedBytes())
	}
}

func (p *promises) checkSegment(t *testing.T, v *Volume, id uint64) {
	t.Helper()
	info, ok := v.Segment(id)
	if !ok || info.HeaderErr != nil || !info.HasSidecar {
		t.Fatalf("segment %d was created, and now: %+v, %v", id, info, ok)
	}
	ts, err := v.ReadTombstones(id)
	if len(ts) < p.buried[id] || err != nil {
		t.Fatalf("segment %d: %d of %d tombstones, %v", id, len(ts), p.buried[id], err)
	}
	found, err := scanAll(v, id)
	must(t, err)
	for _, e := range p.durable[id] {
		if !slices.ContainsFunc(found, func(f FooterEntry) bool { return f.HeaderSum == e.HeaderSum }) {
			t.Fatalf("segment %d: the extent at page %d is lost", id, e.Page)
		}
		must(t, v.VerifyExtent(noDeadline, Address{id, e.Page}, e.HeaderSum))
	}
	if want, ok := p.sealed[id]; ok {
		got, err := v.ReadFooter(id)
		if err != nil || !info.Sealed {
			t.Fatalf("segment %d was sealed, and now: sealed %v, %v", id, info.Sealed, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("footer of segment %d (-want +got):\n%s", id, diff)
		}
	}
}

// sealLeftover does with an unsealed segment what an engine does at Open.
func sealLeftover(t *testing.T, v *Volume, info SegmentInfo) {
	t.Helper()
	if info.Sealed || info.SizeBytes < 2*PageBytes {
		return
	}
	found, err := scanAll(v, info.ID)
	must(t, err)
	must(t, v.SealOld(info.ID, found))
	got, err := v.ReadFooter(info.ID)
	must(t, err)
	if diff := cmp.Diff(found, got, cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("footer of segment %d sealed after the crash (-want +got):\n%s", info.ID, diff)
	}
}

// TestCrashAtEveryOperation cuts the power before every operation that
// changes something, in several ways each, and kills the process there too.
func TestCrashAtEveryOperation(t *testing.T) {
	modes := []vfs.CrashOptions{
		{KeepAll: true},
		{},
		{KeepBytes: 1, KeepNames: 1},
		{KeepNames: 1},
		{KeepBytes: 1},
		{KeepBytes: 0.5, KeepNames: 0.5, TornSectorBytes: 512},
		{KeepBytes: 0.5, KeepNames: 0.5, TornSectorBytes: 4096},
	}
	for k := uint64(1); ; k++ {
		mem, p, hit := vfs.NewMem(), newPromises(), false
		fs := vfs.WithHook(mem, func(op vfs.Op) error {
			if !op.Mutates() || op.Index < k {
				return nil
			}
			if !hit {
				hit = true
				for i, mode := range modes {
					mode.Seed = k*uint64(len(modes)) + uint64(i)
					p.check(t, mem.CrashClone(mode))
				}
			}
			return errStop
		})
		err := p.live(fs)
		if !hit {
			must(t, err)
			if k < 80 {
				t.Fatalf("the scenario has %d operations only", k)
			}
			return
		}
		if err == nil && len(p.unlinked) < 2 {
			t.Fatalf("operation %d failed and nobody noticed", k)
		}
	}
}

// TestErrorAtEveryOperation fails one operation, once, with the disk well
// again behind it: what was answered before must hold, now and after a power
// cut.
func TestErrorAtEveryOperation(t *testing.T) {
	for k := uint64(1); ; k++ {
		mem, p, hit := vfs.NewMem(), newPromises(), false
		fs := vfs.WithHook(mem, func(op vfs.Op) error {
			if op.Mutates() && op.Index == k {
				hit = true
				return errStop
			}
			return nil
		})
		err := p.live(fs)
		p.check(t, mem.CrashClone(vfs.CrashOptions{KeepAll: true}))
		p.check(t, mem.CrashClone(vfs.CrashOptions{Seed: k}))
		if !hit {
			must(t, err)
			return
		}
	}
}

// TestOrphanGoesAfterItsSegment: a process was killed between the removal of
// a segment and the sync of its directory. When the next one takes the sidecar
// away, a power cut must not bring the segment back without it.
func TestOrphanGoesAfterItsSegment(t *testing.T) {
	for seed := range uint64(32) {
		mem := vfs.NewMem()
		v := openTestVolume(t, testOptions(mem))
		must(t, create(t, v, 1).Close())
		must(t, mem.Remove(SegmentName(1)))
		next := openTestVolume(t, testOptions(mem)) // of the next process
		if s := next.Segments(); len(s) != 0 {
			t.Fatalf("segments: %v", s)
		}
		cut := mem.CrashClone(vfs.CrashOptions{Seed: seed, KeepNames: 0.5})
		if _, err := cut.Stat(SegmentName(1)); !vfs.IsNotExist(err) {
			t.Fatalf("seed %d: the segment is back: %v", seed, err)
		}
	}
}

// TestSealOldMakesDurable: the names and bytes of a segment may be in memory
// only when a killed process left it. After SealOld they are not.
func TestSealOldMakesDurable(t *testing.T) {
	scratch := vfs.NewMem()
	v := openTestVolume(t, testOptions(scratch))
	w := create(t, v, 1)
	want := []FooterEntry{mustPut(t, w, 1, 5000)}
	must(t, w.Close())
	mem := vfs.NewMem()
	must(t, mem.MkdirAll(segmentDir(1)))
	writeFile(t, mem, SegmentName(1), readFile(t, scratch, SegmentName(1)))
	left := openTestVolume(t, testOptions(mem))
	must(t, left.SealOld(1, want))
	after := openTestVolume(t, testOptions(mem.CrashClone(vfs.CrashOptions{})))
	got, err := after.ReadFooter(1)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	must(t, after.VerifyExtent(noDeadline, Address{1, want[0].Page}, want[0].HeaderSum))
}

// TestUnlinkAbsentMakesDurable: repeating an Unlink that a kill interrupted
// makes the absence durable.
func TestUnlinkAbsentMakesDurable(t *testing.T) {
	mem := vfs.NewMem()
	v := openTestVolume(t, testOptions(mem))
	must(t, create(t, v, 1).Close())
	must(t, mem.Remove(SegmentName(1)))
	must(t, mem.Remove(SidecarName(1)))
	next := openTestVolume(t, testOptions(mem))
	must(t, next.Unlink(1))
	if _, err := mem.CrashClone(vfs.CrashOptions{}).Stat(SegmentName(1)); !vfs.IsNotExist(err) {
		t.Errorf("the segment is back: %v", err)
	}
}
