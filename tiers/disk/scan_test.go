package disk

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
)

// readFile and writeFile meddle with the files below a volume.
func readFile(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name, 0)
	must(t, err)
	info, err := f.Stat()
	must(t, err)
	p := make([]byte, info.SizeBytes)
	if _, err := f.ReadAt(p, 0); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	must(t, f.Close())
	return p
}

func writeFile(t testing.TB, fs vfs.FS, name string, p []byte) {
	t.Helper()
	f, err := fs.Open(name, vfs.Create|vfs.Trunc)
	must(t, err)
	_, err = f.WriteAt(p, 0)
	must(t, err)
	must(t, f.Close())
}

// TestScanResyncs: a walk goes on behind anything that is no header, and
// takes nothing in a payload for one.
func TestScanResyncs(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.SegmentBytes = 8 << 20
	v := openTestVolume(t, o)
	w := create(t, v, 1)
	var want []FooterEntry
	hole := func(pages int) uint32 {
		page, ok := w.Reserve(pages, 0)
		if !ok {
			t.Fatal("full")
		}
		must(t, w.Done(page, nil))
		return page
	}
	want = append(want, mustPut(t, w, 1, 3<<20)) // larger than a scan's window
	first := hole(3)
	want = append(want, mustPut(t, w, 2, 1))
	want = append(want, mustPut(t, w, 3, 100, 70000, 0, 5))
	second := hole(400)
	want = append(want, mustPut(t, w, 4, 5000))
	must(t, w.Sync())
	must(t, w.Close())

	// The holes hold what a hostile payload could: sound extents of other
	// places, the beginning of a footer, another segment's header page.
	image := readFile(t, mem, SegmentName(1))
	copy(image[int64(first)*PageBytes:], image[int64(want[1].Page)*PageBytes:][:2*PageBytes])
	footer, err := EncodeFooter(want[:1], 1, want[0].EndPage(), testUUID, testKey)
	must(t, err)
	for page := second; page < second+400; page++ {
		copy(image[int64(page)*PageBytes:], footer)
	}
	copy(image[int64(second+3)*PageBytes:], image[:PageBytes])
	writeFile(t, mem, SegmentName(1), image)
	got, err := scanAll(v, 1)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestScanStopsAtFooter: a footer ends the walk though the file goes on, as
// after a crash before the cut; a damaged one does not.
func TestScanStopsAtFooter(t *testing.T) {
	mem := vfs.NewMem()
	v := openTestVolume(t, testOptions(mem))
	w := create(t, v, 1)
	want := []FooterEntry{mustPut(t, w, 1, 5000), mustPut(t, w, 2, 5000)}
	behind := mustPut(t, w, 3, 5000)
	must(t, w.Close())
	image := readFile(t, mem, SegmentName(1))
	footer, err := EncodeFooter(want, 1, want[1].EndPage(), testUUID, testKey)
	must(t, err)
	// Put it where extent 3 begins, and extent 3 behind it, with its header
	// made for its new place.
	planes := blockOf(3, 5000)
	e := extentOf(3, planes)
	e.Address = Address{1, behind.Page + 1}
	buf, sum, err := imageOf(e, planes)
	must(t, err)
	defer buf.Free()
	copy(image[int64(behind.Page)*PageBytes:], footer)
	copy(image[int64(behind.Page+1)*PageBytes:], buf.Bytes())
	writeFile(t, mem, SegmentName(1), image)
	got, err := scanAll(v, 1)
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sound footer (-want +got):\n%s", diff)
	}
	image[int64(behind.Page)*PageBytes+200] ^= 1
	writeFile(t, mem, SegmentName(1), image)
	got, err = scanAll(v, 1)
	must(t, err)
	if diff := cmp.Diff(append(want, EntryOf(e, sum)), got); diff != "" {
		t.Errorf("damaged footer (-want +got):\n%s", diff)
	}
}

// TestScanOfCutFile cuts the file anywhere: the extents before are found.
func TestScanOfCutFile(t *testing.T) {
	mem := vfs.NewMem()
	v := openTestVolume(t, testOptions(mem))
	w := create(t, v, 1)
	all := []FooterEntry{mustPut(t, w, 1, 5000), mustPut(t, w, 2, 9000), mustPut(t, w, 3, 1)}
	must(t, w.Close())
	image := readFile(t, mem, SegmentName(1))
	for size := int64(all[2].EndPage()+1) * PageBytes; size >= 0; size -= 1000 {
		writeFile(t, mem, SegmentName(1), image[:size])
		got, err := scanAll(v, 1)
		must(t, err)
		n := 0
		for n < len(all) && int64(all[n].EndPage())*PageBytes <= size {
			n++
		}
		if len(got) != n {
			t.Fatalf("%d bytes: %d extents, want %d", size, len(got), n)
		}
	}
}

// TestScanErrors: the callback's, the context's and the device's.
func TestScanErrors(t *testing.T) {
	var fail atomic.Bool
	hooked := vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpRead && fail.Load() {
			return syscall.EIO
		}
		return nil
	})
	v := openTestVolume(t, testOptions(hooked))
	w := create(t, v, 1)
	e := mustPut(t, w, 1, 5000)
	must(t, w.Seal(w.Entries()))
	at := Address{1, e.Page}
	stop := errors.New("stop")
	err := v.ScanSegment(noDeadline, 1, func(*Extent, uint64, Address) error { return stop })
	if err != stop {
		t.Errorf("callback: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	never := func(*Extent, uint64, Address) error { t.Error("called"); return nil }
	if err := v.ScanSegment(ctx, 1, never); !errors.Is(err, context.Canceled) {
		t.Errorf("context: %v", err)
	}
	if err := v.VerifyExtent(ctx, at, e.HeaderSum); !errors.Is(err, context.Canceled) {
		t.Errorf("verify, context: %v", err)
	}
	if err := v.ScanSegment(noDeadline, 2, never); !errors.Is(err, ErrNoSegment) {
		t.Errorf("no segment: %v", err)
	}
	fail.Store(true)
	_, footerErr := v.ReadFooter(1)
	_, _, readErr := v.ReadExtent(at)
	for name, err := range map[string]error{
		"scan": v.ScanSegment(noDeadline, 1, never), "verify": v.VerifyExtent(noDeadline, at, e.HeaderSum),
		"footer": footerErr, "read": readErr,
	} {
		if !errors.Is(err, syscall.EIO) || errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, want EIO and no verdict on the data", name, err)
		}
	}
}

// TestVerifyFindsEveryFlip changes one byte of every 61 of an extent on its
// way from the device; header, chunks and padding are all covered.
func TestVerifyFindsEveryFlip(t *testing.T) {
	var flip atomic.Int64
	flip.Store(-1)
	fs := vfs.WithReadFilter(vfs.NewMem(), func(name string, off int64, p []byte) {
		if i := flip.Load() - off; name == SegmentName(1) && i >= 0 && i < int64(len(p)) {
			p[i] ^= 0x40
		}
	})
	v := openTestVolume(t, testOptions(fs))
	w := create(t, v, 1)
	mustPut(t, w, 1, 100)
	entries := []FooterEntry{mustPut(t, w, 2, 70000, 1, 0, 5000)}
	for _, codec := range []uint8{CodecZstd, CodecS2} {
		e, x := mustPutCompressed(t, w, uint64(codec), codec, 70000, 1, 0, 5000)
		if x.Chunks[0].StoredBytes == sums.ChunkBytes || x.Chunks[2].StoredRaw(codec, 1) == false {
			t.Fatal("no mixture of compressed and raw chunks")
		}
		entries = append(entries, e)
	}
	must(t, w.Close())
	for _, e := range entries {
		checkFlipsFound(t, v, &flip, e)
	}
	if err := v.VerifyExtent(noDeadline, Address{1, 1}, entries[0].HeaderSum); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another extent: %v", err)
	}
	if err := v.VerifyExtent(noDeadline, Address{1, 1 << 20}, entries[0].HeaderSum); !errors.Is(err, ErrCorrupt) {
		t.Errorf("behind the end: %v", err)
	}
}

func checkFlipsFound(t *testing.T, v *Volume, flip *atomic.Int64, e FooterEntry) {
	t.Helper()
	at := Address{1, e.Page}
	must(t, v.VerifyExtent(noDeadline, at, e.HeaderSum))
	for off := at.Offset(); off < int64(e.EndPage())*PageBytes; off += 61 {
		flip.Store(off)
		if err := v.VerifyExtent(noDeadline, at, e.HeaderSum); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("byte %d of the extent: %v", off-at.Offset(), err)
		}
	}
	flip.Store(-1)
	must(t, v.VerifyExtent(noDeadline, at, e.HeaderSum))
	if err := v.VerifyExtent(noDeadline, at, e.HeaderSum+1); !errors.Is(err, ErrCorrupt) {
		t.Errorf("another header sum: %v", err)
	}
}

// TestVerifyAlias: an alias is its header.
func TestVerifyAlias(t *testing.T) {
	v := openTestVolume(t, testOptions(vfs.NewMem()))
	w := create(t, v, 1)
	e := extentOf(1, blockOf(1, 100000))
	e.Kind = KindAlias
	e.Layout()
	page, ok := w.Reserve(e.Pages(), 200)
	if !ok || e.Pages() != 1 {
		t.Fatalf("%d pages, %v", e.Pages(), ok)
	}
	e.Address = Address{1, page}
	p := make([]byte, PageBytes)
	sum, err := EncodeExtent(p, e, testKey)
	must(t, err)
	must(t, w.WriteAt(page, p))
	entry := EntryOf(e, sum)
	must(t, w.Done(page, &entry))
	must(t, w.Seal(w.Entries()))
	must(t, v.VerifyExtent(noDeadline, e.Address, sum))
	got, gotSum, err := v.ReadExtent(e.Address)
	if err != nil || gotSum != sum || got.Kind != KindAlias {
		t.Errorf("%v, sum %x, %v", got, gotSum, err)
	}
}

// TestChunkVerify checks ranges of chunks across planes.
func TestChunkVerify(t *testing.T) {
	planes := blockOf(1, 2*sums.ChunkBytes+10, 0, 5, sums.ChunkBytes)
	e := extentOf(1, planes)
	e.Address = Address{1, 1}
	buf, _, err := imageOf(e, planes)
	must(t, err)
	defer buf.Free()
	payload := buf.Bytes()[PageBytes*int(e.HeaderPages):]
	n := len(e.Chunks)
	for first := range n {
		_, from, _ := e.ChunkSpan(first)
		for last := first; last <= n; last++ {
			if bad := ChunkVerify(e, payload[from:], first, last); bad != -1 {
				t.Errorf("chunks %d to %d: %d is bad", first, last, bad)
			}
		}
		_, off, size := e.ChunkSpan(n - 1)
		if bad := ChunkVerify(e, payload[from:off+int64(size)-1], first, n); bad != n-1 {
			t.Errorf("cut short: chunk %d is bad, want %d", bad, n-1)
		}
		if bad := ChunkVerify(e, payload[from:], first, n+1); bad != n {
			t.Errorf("one too many: chunk %d is bad, want %d", bad, n)
		}
	}
	for i := range n {
		_, off, size := e.ChunkSpan(i)
		payload[off+int64(size)-1] ^= 1
		if bad := ChunkVerify(e, payload, 0, n); bad != i {
			t.Errorf("chunk %d is bad, want %d", bad, i)
		}
		payload[off+int64(size)-1] ^= 1
	}
	if bad := ChunkVerify(e, nil, 0, 1); bad != 0 {
		t.Errorf("no payload: %d", bad)
	}
}

// FuzzScanSegment walks over damaged files, a sealed segment with a patch put
// on it and its end cut off: no panic, no error but of a newer format, and
// what is found is sound.
func FuzzScanSegment(f *testing.F) {
	mem := vfs.NewMem()
	v, err := OpenVolume(testOptions(mem))
	must(f, err)
	w := create(f, v, 1)
	first, second := mustPut(f, w, 1, 100), mustPut(f, w, 2, 5000, 3)
	must(f, w.Seal(w.Entries()))
	must(f, v.Close())
	base := readFile(f, mem, SegmentName(1))
	f.Add(uint32(0), []byte{}, uint32(0))
	f.Add(first.Page*PageBytes+ownOffset, []byte{3}, uint32(0))
	f.Add(second.Page*PageBytes, base[first.Page*PageBytes:][:64], uint32(64))
	f.Add(second.EndPage()*PageBytes+footPagesOffset, []byte{2}, uint32(PageBytes))
	f.Fuzz(func(t *testing.T, at uint32, patch []byte, cut uint32) {
		p := slices.Clone(base)
		copy(p[int(at)%len(p):], patch)
		p = p[:len(p)-int(cut)%len(p)]
		mem := vfs.NewMem()
		must(t, mem.MkdirAll(segmentDir(1)))
		writeFile(t, mem, SegmentName(1), p)
		o := testOptions(mem)
		o.Direct = DirectNever
		v, err := OpenVolume(o)
		must(t, err)
		checkScan(t, v, int64(len(p)))
		must(t, v.Close())
	})
}

func checkScan(t *testing.T, v *Volume, sizeBytes int64) {
	t.Helper()
	found, err := scanAll(v, 1)
	if err != nil && !errors.Is(err, ErrUnsupported) {
		t.Fatal(err)
	}
	for _, e := range found {
		if int64(e.EndPage())*PageBytes > sizeBytes {
			t.Fatalf("extent to page %d in a file of %d bytes", e.EndPage(), sizeBytes)
		}
	}
	_, footerErr := v.ReadFooter(1)
	info, _ := v.Segment(1)
	if info.Sealed && footerErr != nil && !errors.Is(footerErr, ErrCorrupt) {
		t.Fatal(footerErr)
	}
	if !info.Sealed && footerErr == nil {
		t.Fatal("a footer in a segment that is not sealed")
	}
	if info.Sealed || err != nil || sizeBytes < PageBytes {
		return
	}
	must(t, v.SealOld(1, found))
	got, err := v.ReadFooter(1)
	if err != nil || len(got) != len(found) {
		t.Fatalf("sealed again: %d of %d entries, %v", len(got), len(found), err)
	}
}
