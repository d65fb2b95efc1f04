package readertest

import (
	"context"
	"testing"

	"github.com/sealstone/sealstone/tiers"
)

// OpenWriter makes a reader that also writes, for one test.
type OpenWriter func(t testing.TB, c Config) tiers.ReadWriter

// RunWriter runs the suite of writes; Run has that of reads.
func RunWriter(t *testing.T, open OpenWriter) {
	s := &suite{open: func(t testing.TB, c Config) tiers.Reader { return open(t, c) }}
	for _, tc := range []struct {
		name string
		test func(*testing.T, *suite)
	}{
		{"Content", testWriteContent},
		{"RandomBatches", testWriteRandomBatches},
		{"GrowsFile", testWriteGrowsFile},
		{"Invalid", testWriteInvalid},
		{"ShortAndInterrupted", testWriteShort},
		{"NoProgress", testWriteNoProgress},
		{"OneBadItem", testWriteOneBadItem},
		{"Refused", testWriteRefused},
		{"RefusedBothWays", testWriteRefusedBothWays},
		{"Done", testWriteDone},
		{"QueueFull", testWriteQueueFull},
		{"Closed", testWriteClosed},
		{"CloseWhileWriting", testCloseWhileWriting},
		{"Concurrent", testWriteConcurrent},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, s) })
	}
}

func (s *suite) writer(t *testing.T, c Config) tiers.ReadWriter {
	t.Helper()
	r, _ := s.reader(t, c)
	return r.(tiers.ReadWriter)
}

// fill makes the destination a source: bytes that tell their place in the
// file and the round that wrote them.
func (d *destination) fill(off int64, round byte) {
	for i := range d.bytes {
		at := off + int64(i)
		d.bytes[i] = byte(at) ^ byte(at>>8)*31 ^ byte(at>>16) ^ round*17 ^ 0x80
	}
}

// source makes memory to be written, and notes it in the content that the
// file shall have.
func source(t testing.TB, kind memoryKind, f *file, off int64, length int, round byte, cuts ...int) tiers.Item {
	d := newDestination(t, kind, length)
	d.fill(off, round)
	copy(f.content[off:], d.bytes)
	return d.item(f, off, cuts...)
}

func writeOne(t *testing.T, w tiers.ReadWriter, it tiers.Item) tiers.Item {
	t.Helper()
	items := []tiers.Item{it}
	if err := w.WriteBatch(items); err != nil {
		t.Fatalf("write batch: %v", err)
	}
	return items[0]
}

// fataler is a testing.TB or a rapid.T.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// checkWritten wants success.
func checkWritten(t fataler, it tiers.Item) {
	t.Helper()
	if it.Err != nil || it.N != it.Length || it.Path == tiers.PathNone {
		t.Fatalf("write %d+%d: err %v, n %d, path %v", it.Offset, it.Length, it.Err, it.N, it.Path)
	}
}

// checkContent wants the whole file as noted: what was written, and around it
// the bytes that it had.
func (f *file) checkContent(t testing.TB) {
	t.Helper()
	got := make([]byte, len(f.content))
	if _, err := f.buffered.ReadAt(got, 0); err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if got[i] != f.content[i] {
			t.Fatalf("byte %d of the file is %#x, want %#x", i, got[i], f.content[i])
		}
	}
	info, err := f.buffered.Stat()
	if err != nil || info.SizeBytes != int64(len(f.content)) {
		t.Fatalf("the file has %d bytes (%v), want %d", info.SizeBytes, err, len(f.content))
	}
}

func checkWritesNotRefused(t *testing.T, r tiers.Reader) {
	t.Helper()
	if r, ok := r.(interface{ WriteRefusal() string }); ok && r.WriteRefusal() != "" {
		t.Errorf("direct writes were given up: %s", r.WriteRefusal())
	}
}

// testWriteClosed: after Close nothing is written.
func testWriteClosed(t *testing.T, s *suite) {
	f := newFile(t, memDirect)
	w := s.writer(t, Config{})
	checkWritten(t, writeOne(t, w, source(t, heap, f, 7, 100, 1)))
	if err := w.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	d := newDestination(t, heap, 100)
	items := []tiers.Item{d.item(f, 0), d.item(f, 0)}
	wantErr(t, w.WriteBatch(items), tiers.ErrClosed)
	for _, it := range items {
		wantErr(t, it.Err, tiers.ErrClosed)
	}
	f.checkContent(t)
}
