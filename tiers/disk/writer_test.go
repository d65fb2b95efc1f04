package disk

import (
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestWriterKeepsRoomForFooter fills segments with extents of any size: the
// footer always has its place, and nothing goes beyond the segment.
func TestWriterKeepsRoomForFooter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mem := vfs.NewMem()
		o := testOptions(mem)
		o.SegmentBytes = PageBytes * int64(rapid.IntRange(minSegmentPages, 40).Draw(rt, "pages"))
		v, err := OpenVolume(o)
		if err != nil {
			rt.Fatal(err)
		}
		w := create(t, v, 1)
		for n := uint64(0); ; n++ {
			size := rapid.IntRange(1, 3*PageBytes).Draw(rt, "size")
			if rapid.IntRange(0, 9).Draw(rt, "hole") == 0 {
				page, ok := w.Reserve(2, rapid.IntRange(0, 5000).Draw(rt, "entry"))
				if ok && w.Done(page, nil) != nil {
					rt.Fatal("done")
				}
				if ok {
					continue
				}
			}
			_, ok, err := put(w, n, size)
			if err != nil {
				rt.Fatal(err)
			}
			if !ok {
				break
			}
		}
		if !w.Full() {
			rt.Fatal("a reservation was refused, and the writer is not full")
		}
		want := w.Entries()
		if err := w.Seal(want); err != nil {
			rt.Fatal(err)
		}
		got, err := v.ReadFooter(1)
		if err != nil || !cmp.Equal(want, got, cmpopts.EquateEmpty()) {
			rt.Fatalf("footer: %v", err)
		}
		if info, _ := v.Segment(1); info.SizeBytes > o.SegmentBytes {
			rt.Fatalf("%d bytes in a segment of %d", info.SizeBytes, o.SegmentBytes)
		}
		if err := v.Close(); err != nil {
			rt.Fatal(err)
		}
	})
}

// TestWriterConcurrent has many writers and syncs at one time.
func TestWriterConcurrent(t *testing.T) {
	eachFS(t, func(t *testing.T, fs vfs.FS) {
		o := testOptions(fs)
		o.SegmentBytes = 8 << 20
		v := openTestVolume(t, o)
		w := create(t, v, 3)
		var wg sync.WaitGroup
		for g := range uint64(4) {
			wg.Go(func() {
				for n := range uint64(20) {
					if _, ok, err := put(w, g*100+n, int(n)*3000+1); err != nil || !ok {
						t.Errorf("put: ok %v, err %v", ok, err)
					}
					if n%5 == g {
						if err := w.Sync(); err != nil {
							t.Error(err)
						}
					}
				}
			})
		}
		wg.Wait()
		entries := w.Entries()
		if len(entries) != 80 {
			t.Fatalf("%d entries", len(entries))
		}
		must(t, w.Seal(entries))
		found, err := scanAll(v, 3)
		must(t, err)
		if diff := cmp.Diff(entries, found); diff != "" {
			t.Errorf("scan (-want +got):\n%s", diff)
		}
		for _, e := range entries {
			must(t, v.VerifyExtent(noDeadline, Address{3, e.Page}, e.HeaderSum))
		}
	})
}

// TestSyncWaitsForEarlierReservations: a sync covers all that was reserved
// before it, and waits for nothing that came later.
func TestSyncWaitsForEarlierReservations(t *testing.T) {
	var syncs, ended atomic.Int64
	started := make(chan struct{})
	fs := vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && op.Name == SegmentName(1) && syncs.Add(1) == 2 && ended.Load() == 0 {
			t.Error("synced before the reservation ended")
		}
		return nil
	})
	v := openTestVolume(t, testOptions(fs)) // the first sync is Create's
	w := create(t, v, 1)
	page, ok := w.Reserve(2, 200)
	if !ok {
		t.Fatal("no room")
	}
	done := make(chan error, 1)
	go func() {
		close(started)
		done <- w.Sync()
	}()
	<-started
	// Let it come to where it waits; a sync that does not wait is most likely
	// through by then.
	for w.syncMu.TryLock() {
		w.syncMu.Unlock()
		runtime.Gosched()
	}
	for range 10000 {
		runtime.Gosched()
	}
	ended.Add(1)
	must(t, w.Done(page, nil))
	must(t, <-done)

	late, ok := w.Reserve(2, 200)
	if !ok {
		t.Fatal("no room")
	}
	if !w.Dirty() {
		t.Error("a reservation is open, and the writer is clean")
	}
	must(t, w.Done(late, nil))
	must(t, w.Sync())
	if w.Dirty() {
		t.Error("dirty after a sync")
	}
	must(t, w.Close())
}

// failNext returns a file system that fails the next operation of a kind on
// segment 1 once fail is 1, and counts in after what is tried on it later.
func failNext(kind vfs.OpKind, fail, after *atomic.Int64) vfs.FS {
	return vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
		if op.Name != SegmentName(1) || !op.Mutates() {
			return nil
		}
		if fail.Load() == 2 {
			after.Add(1)
		}
		if op.Kind == kind && fail.CompareAndSwap(1, 2) {
			return syscall.EIO
		}
		return nil
	})
}

// TestWriterPoisoned: after a failed sync nothing reaches the file any more,
// and what was synced before can be read.
func TestWriterPoisoned(t *testing.T) {
	var fail, after atomic.Int64
	v := openTestVolume(t, testOptions(failNext(vfs.OpSync, &fail, &after)))
	w := create(t, v, 1)
	good := mustPut(t, w, 1, 5000)
	must(t, w.Sync())
	fail.Store(1)
	mustPut(t, w, 2, 5000)
	wantPoisoned(t, w.Sync())
	if _, ok := w.Reserve(2, 200); ok || !w.Full() {
		t.Error("a poisoned writer takes extents")
	}
	wantPoisoned(t, w.Sync())
	wantPoisoned(t, w.Seal(nil))
	wantPoisoned(t, w.Err())
	must(t, w.Close())
	if n := after.Load(); n != 0 {
		t.Errorf("%d operations on the file after the failure", n)
	}
	must(t, v.VerifyExtent(noDeadline, Address{1, good.Page}, good.HeaderSum))
}

// TestWriterFailedWrite: a failed write leaves a hole and ends the taking of
// extents; those before it are synced and sealed all the same.
func TestWriterFailedWrite(t *testing.T) {
	var fail, after atomic.Int64
	v := openTestVolume(t, testOptions(failNext(vfs.OpWrite, &fail, &after)))
	w := create(t, v, 1)
	good := mustPut(t, w, 1, 5000)
	fail.Store(1)
	if _, _, err := put(w, 2, 5000); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrPoisoned) {
		t.Fatalf("write over a failing device: %v", err)
	}
	if _, ok := w.Reserve(2, 200); ok || !w.Full() {
		t.Error("takes extents after a failed write")
	}
	must(t, w.Sync())
	must(t, w.Seal(w.Entries()))
	entries, err := v.ReadFooter(1)
	must(t, err)
	if len(entries) != 1 || entries[0].Page != good.Page {
		t.Errorf("footer %v, want the extent at page %d alone", entries, good.Page)
	}
	must(t, v.VerifyExtent(noDeadline, Address{1, good.Page}, good.HeaderSum))
}

func wantPoisoned(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, ErrPoisoned) || !errors.Is(err, syscall.EIO) {
		t.Errorf("%v, want ErrPoisoned and EIO", err)
	}
}

// TestWriterMisuse: what a caller may get wrong is an error, and harmless.
func TestWriterMisuse(t *testing.T) {
	v := openTestVolume(t, testOptions(vfs.NewMem()))
	w := create(t, v, 1)
	entry := mustPut(t, w, 1, 5000)
	page, _ := w.Reserve(2, 100)
	pageBytes := make([]byte, PageBytes)
	wrong := entry
	// The calls are made in this order: the reservation is open until the last
	// but one.
	for name, err := range map[string]error{
		"write outside":          w.WriteAt(page+1, make([]byte, 2*PageBytes)),
		"write the header":       w.WriteAt(0, pageBytes),
		"write an ended extent":  w.WriteAt(entry.Page, pageBytes),
		"write half a page":      w.WriteAt(page, pageBytes[:2048]),
		"write nothing":          w.WriteAt(page, nil),
		"end twice":              w.Done(entry.Page, nil),
		"seal over a reserved":   w.Seal(nil),
		"close over a reserved":  w.Close(),
		"unlink under a writer":  v.Unlink(1),
		"seal old with a writer": v.SealOld(1, nil),
		"end with another entry": w.Done(page, &wrong),
		"seal what is not there": w.Seal([]FooterEntry{{Page: page, HeaderPages: 1, PayloadPages: 1}}),
	} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want %v", name, err, ErrInvalid)
		}
	}
	if _, ok := w.Reserve(0, 0); ok {
		t.Error("reserved no pages")
	}
	if _, err := v.Create(1, ClassFresh); err == nil {
		t.Error("an id was used twice")
	}
	must(t, w.Seal(w.Entries()))
	for _, err := range []error{w.Seal(nil), w.WriteAt(1, pageBytes)} {
		if !errors.Is(err, ErrInvalid) {
			t.Errorf("after sealing: %v, want %v", err, ErrInvalid)
		}
	}
	must(t, w.Close())
	must(t, w.Close())
}

// TestSyncMeetsSeal: a sync that comes too late for an unsynced segment, as
// somebody sealed it, is none that failed; one of a segment given up is.
func TestSyncMeetsSeal(t *testing.T) {
	v := openTestVolume(t, testOptions(vfs.NewMem()))
	for id, end := range map[uint64]func(*Writer) error{
		1: func(w *Writer) error { return w.Seal(w.Entries()) },
		2: (*Writer).Close,
	} {
		w := create(t, v, id)
		mustPut(t, w, 1, 100)
		page, _ := w.Reserve(2, 200)
		must(t, w.Done(page, nil))
		if !w.Dirty() {
			t.Fatal("nothing to sync")
		}
		must(t, end(w))
		if err := w.Sync(); id == 1 && err != nil || id == 2 && !errors.Is(err, ErrInvalid) {
			t.Errorf("sync of segment %d, which has ended: %v", id, err)
		}
	}
}

// TestWriterEntriesSorted: entries come by page, whatever the order in which
// their reservations ended.
func TestWriterEntriesSorted(t *testing.T) {
	v := openTestVolume(t, testOptions(vfs.NewMem()))
	w := create(t, v, 1)
	a, _ := w.Reserve(2, 200)
	b := mustPut(t, w, 2, 100)
	e := b
	e.Page = a
	must(t, w.WriteAt(a, make([]byte, 2*PageBytes)))
	must(t, w.Done(a, &e))
	got := w.Entries()
	if !slices.IsSortedFunc(got, func(x, y FooterEntry) int { return int(x.Page) - int(y.Page) }) || len(got) != 2 {
		t.Errorf("entries %v", got)
	}
	must(t, w.Close())
}

// TestSealKeepsToItsSegment: entries larger than those that were reserved are
// refused when the footer would not fit, and the writer goes on.
func TestSealKeepsToItsSegment(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.SegmentBytes = 32 * PageBytes
	v := openTestVolume(t, o)
	w := create(t, v, 1)
	size := FooterEntryBytes(MinHashBytes, 0)
	for {
		page, ok := w.Reserve(1, size)
		if !ok {
			break
		}
		e := FooterEntry{Page: page, HeaderPages: 1, Kind: KindAlias, RawBytes: 1, Hash: seq(1, MinHashBytes)}
		must(t, w.Done(page, &e))
	}
	good, large := w.Entries(), w.Entries()
	for i := range large {
		large[i].Hash = seq(1, MaxHashBytes)
		large[i].Parent = seq(2, MaxHashBytes)
	}
	if err := w.Seal(large); !errors.Is(err, ErrInvalid) {
		t.Fatalf("%d large entries: %v, want %v", len(large), err, ErrInvalid)
	}
	must(t, w.Seal(good))
	if info, _ := v.Segment(1); info.SizeBytes != o.SegmentBytes {
		t.Errorf("%d bytes: the test does not fill its segment of %d", info.SizeBytes, o.SegmentBytes)
	}
}

// TestSealOrder: data durable, footer, footer durable, cut, cut durable. So a
// file that ends in a trailer has all that its footer lists.
func TestSealOrder(t *testing.T) {
	var ops []string
	hooked := vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
		if op.Mutates() && op.Name == SegmentName(1) {
			ops = append(ops, op.Kind.String())
		}
		return nil
	})
	want := []string{"sync", "write", "sync", "truncate", "sync"}
	v := openTestVolume(t, testOptions(hooked))
	w := create(t, v, 1)
	mustPut(t, w, 1, 100)
	ops = nil
	must(t, w.Seal(w.Entries()))
	if !slices.Equal(ops, want) {
		t.Errorf("Seal did %v, want %v", ops, want)
	}
	must(t, v.Unlink(1))
	w = create(t, v, 1)
	mustPut(t, w, 1, 100)
	must(t, w.Close())
	ops = nil
	must(t, v.SealOld(1, nil))
	if !slices.Equal(ops, want) {
		t.Errorf("SealOld did %v, want %v", ops, want)
	}
}

// TestHoleGivesFooterRoomBack: a failed extent keeps its pages, and not its
// place in the footer.
func TestHoleGivesFooterRoomBack(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.SegmentBytes = 16 * PageBytes
	v := openTestVolume(t, o)
	w := create(t, v, 1)
	for n := range 3 {
		page, ok := w.Reserve(1, 8*PageBytes)
		if !ok {
			t.Fatalf("no room for the footer of extent %d", n)
		}
		must(t, w.Done(page, nil))
	}
	must(t, w.Seal(nil))
}

// TestFailedWriteUnderWaitingSync: a sync that waits for a reservation is not
// disturbed by another extent's failed write, and covers what was written.
func TestFailedWriteUnderWaitingSync(t *testing.T) {
	var fail atomic.Bool
	hooked := vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && fail.Load() {
			return syscall.EIO
		}
		return nil
	})
	v := openTestVolume(t, testOptions(hooked))
	w := create(t, v, 1)
	held, _ := w.Reserve(2, 200)
	done := make(chan error, 1)
	go func() { done <- w.Sync() }()
	fail.Store(true)
	if _, _, err := put(w, 1, 100); !errors.Is(err, syscall.EIO) {
		t.Errorf("write over a failing device: %v", err)
	}
	must(t, w.Done(held, nil))
	must(t, <-done)
	must(t, w.Err())
	must(t, w.Close())
}

// TestCreateOverLeftovers: files of the same id are never taken over, and a
// segment that could not be made is taken away.
func TestCreateOverLeftovers(t *testing.T) {
	for _, name := range []string{SegmentName(1), SidecarName(1)} {
		mem := vfs.NewMem()
		v := openTestVolume(t, testOptions(mem))
		must(t, mem.Mkdir(segmentDir(1)))
		writeFile(t, mem, name, []byte("mine"))
		if _, err := v.Create(1, ClassFresh); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v, want %v", name, err, fs.ErrExist)
		}
		if _, err := mem.Stat(SegmentName(1)); name == SidecarName(1) && !vfs.IsNotExist(err) {
			t.Errorf("the segment stays behind: %v", err)
		}
		if name == SegmentName(1) && string(readFile(t, mem, name)) != "mine" {
			t.Error("the segment was overwritten")
		}
		if open, _ := v.OpenFiles(); open != 0 || v.AllocatedBytes() != 0 {
			t.Errorf("%s: %d files open, %d bytes counted", name, open, v.AllocatedBytes())
		}
	}
}

// TestCreateWithoutRoom: a create that fails leaves nothing behind.
func TestCreateWithoutRoom(t *testing.T) {
	mem := vfs.NewMem()
	v := openTestVolume(t, testOptions(mem))
	mem.SetCapacityBytes(testSegmentBytes / 2)
	if _, err := v.Create(1, ClassFresh); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%v, want ENOSPC", err)
	}
	if n := v.AllocatedBytes(); n != 0 || mem.UsedBytes() != 0 {
		t.Errorf("%d bytes counted, %d held", n, mem.UsedBytes())
	}
	if open, _ := v.OpenFiles(); open != 0 {
		t.Errorf("%d files open", open)
	}
	if s := v.Segments(); len(s) != 0 {
		t.Errorf("segments: %v", s)
	}
	mem.SetCapacityBytes(1 << 30)
	must(t, create(t, v, 1).Close())
}

// TestDirectWriteRefused: a refusal while running means the page cache, not a
// failed write.
func TestDirectWriteRefused(t *testing.T) {
	var refuse atomic.Bool
	fs := vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpWrite && refuse.CompareAndSwap(true, false) {
			return syscall.EINVAL
		}
		return nil
	})
	v := openTestVolume(t, testOptions(fs))
	if r := v.DirectRefusal(); r != "" {
		t.Fatalf("refused from the start: %s", r)
	}
	w := create(t, v, 1)
	refuse.Store(true)
	e := mustPut(t, w, 1, 5000)
	if v.DirectRefusal() == "" {
		t.Error("no reason kept")
	}
	must(t, w.Seal(w.Entries()))
	must(t, v.VerifyExtent(noDeadline, Address{1, e.Page}, e.HeaderSum))
}
