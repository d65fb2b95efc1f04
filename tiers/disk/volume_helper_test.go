package disk

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
)

const testSegmentBytes = 512 << 10

func testOptions(fs vfs.FS) VolumeOptions {
	return VolumeOptions{FS: fs, UUID: testUUID, Key: testKey, SegmentBytes: testSegmentBytes, MaxOpenFiles: 32}
}

// openTestVolume opens a volume that is closed at the end of the test, which
// must have released everything by then.
func openTestVolume(t testing.TB, o VolumeOptions) *Volume {
	t.Helper()
	v, err := OpenVolume(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.Close(); err != nil {
			t.Error(err)
		}
	})
	return v
}

func openOS(t testing.TB) *vfs.OS {
	t.Helper()
	fs, err := vfs.OpenOS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fs.Close() })
	return fs
}

// eachFS runs f on a real directory and on one in memory.
func eachFS(t *testing.T, f func(t *testing.T, fs vfs.FS)) {
	t.Run("os", func(t *testing.T) { f(t, openOS(t)) })
	t.Run("mem", func(t *testing.T) { f(t, vfs.NewMem()) })
}

func create(t testing.TB, v *Volume, id uint64) *Writer {
	t.Helper()
	w, err := v.Create(id, ClassFresh)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// blockOf returns the planes' bytes of a block that its sequence determines.
func blockOf(seq uint64, planeLens ...int) [][]byte {
	var seed [32]byte
	for i := range 8 {
		seed[i] = byte(seq >> (8 * i))
	}
	rng := rand.NewChaCha8(seed)
	planes := make([][]byte, len(planeLens))
	for i, n := range planeLens {
		planes[i] = make([]byte, n)
		_, _ = rng.Read(planes[i])
	}
	return planes
}

// extentOf returns the header of a block, but for its address.
func extentOf(seqNo uint64, planes [][]byte) *Extent {
	e := &Extent{
		Kind: KindFull, StoreUUID: testUUID, Seq: seqNo, Namespace: 1,
		Hash: fmt.Appendf(nil, "hash of block %08d", seqNo),
	}
	var lens []int64
	var raw []uint64
	for i, p := range planes {
		e.Planes = append(e.Planes, Plane{Name: fmt.Sprintf("p%d", i), RawBytes: int64(len(p))})
		lens = append(lens, int64(len(p)))
		raw = sums.Chunks(raw, p)
	}
	e.Layout()
	for i := range e.Chunks {
		e.Chunks[i].RawSum = raw[i]
	}
	e.ContentID = sums.Content(lens, raw)
	return e
}

// imageOf returns the pages of an extent in memory that suits direct I/O;
// free it.
func imageOf(e *Extent, planes [][]byte) (*aligned.Buffer, uint64, error) {
	buf, err := aligned.Alloc(e.Pages() * PageBytes)
	if err != nil {
		return nil, 0, err
	}
	payload := buf.Bytes()[int(e.HeaderPages)*PageBytes:]
	for i := range planes {
		copy(payload[e.Planes[i].OffsetBytes:], planes[i])
	}
	sum, err := EncodeExtent(buf.Bytes()[:int(e.HeaderPages)*PageBytes], e, testKey)
	return buf, sum, err
}

// put appends a block; ok is false when the segment is full.
func put(w *Writer, seqNo uint64, planeLens ...int) (entry FooterEntry, ok bool, err error) {
	planes := blockOf(seqNo, planeLens...)
	e := extentOf(seqNo, planes)
	page, ok := w.Reserve(e.Pages(), FooterEntryBytes(len(e.Hash), len(e.Parent)))
	if !ok {
		return FooterEntry{}, false, nil
	}
	e.Address = Address{w.ID(), page}
	buf, sum, err := imageOf(e, planes)
	if err == nil {
		err = w.WriteAt(page, buf.Bytes())
	}
	buf.Free()
	entry = EntryOf(e, sum)
	if err != nil {
		_ = w.Done(page, nil)
		return entry, true, err
	}
	return entry, true, w.Done(page, &entry)
}

func mustPut(t testing.TB, w *Writer, seqNo uint64, planeLens ...int) FooterEntry {
	t.Helper()
	entry, ok, err := put(w, seqNo, planeLens...)
	if err != nil || !ok {
		t.Fatalf("put %d: ok %v, err %v", seqNo, ok, err)
	}
	return entry
}

// scanAll returns what a scan of a segment finds.
func scanAll(v *Volume, id uint64) ([]FooterEntry, error) {
	var out []FooterEntry
	err := v.ScanSegment(noDeadline, id, func(e *Extent, sum uint64, at Address) error {
		if e.Address != at {
			return fmt.Errorf("extent of %v at %v", e.Address, at)
		}
		out = append(out, EntryOf(e, sum))
		return nil
	})
	return out, err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
