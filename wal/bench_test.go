package wal

import (
	"fmt"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// osOptions are those of a log on a real file system.
func osOptions(t testing.TB) Options {
	t.Helper()
	fs, err := vfs.OpenOS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fs.Close(); err != nil {
			t.Error(err)
		}
	})
	return Options{FS: fs, Dir: "wal", SegmentBytes: 64 << 10}
}

// TestRealDirectory: the same on the file system under the test's directory.
func TestRealDirectory(t *testing.T) {
	o := osOptions(t)
	l := mustCreate(t, o, 0)
	var want []string
	for i := range 400 {
		r := fmt.Sprintf("record %d %0900d", i, i)
		mustAppend(t, l, r)
		want = append(want, r)
	}
	mustSync(t, l)
	r, got := mustRecover(t, o, 0) // what another process sees now
	wantStrings(t, got, want...)
	if r.End != l.End() || len(r.Files) != l.Stats().Files || len(r.Files) < 5 {
		t.Fatalf("recovered %+v", r)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	next := mustCreate(t, o, r.End)
	if err := next.RemoveOthers(); err != nil {
		t.Fatal(err)
	}
	if r, got := mustRecover(t, o, 0); len(got) != 0 || r.End != next.End() || r.Torn != nil || r.Corrupt != nil {
		t.Fatalf("recovered %+v", r)
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, records := range []int{1, 16} {
		b.Run(fmt.Sprintf("%dx200B", records), func(b *testing.B) {
			o := osOptions(b)
			o.SegmentBytes = 64 << 20
			l := mustCreate(b, o, 0)
			group := make([][]byte, records)
			for i := range group {
				group[i] = make([]byte, 200)
			}
			b.SetBytes(groupBytes(group))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := l.Append(group...); err != nil {
					b.Fatal(err)
				}
				if err := l.Trim(l.Stats().Synced); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkRecover(b *testing.B) {
	o := osOptions(b)
	o.SegmentBytes = 64 << 20
	l := mustCreate(b, o, 0)
	const records = 200_000
	for range records {
		if _, _, err := l.Append(make([]byte, 200)); err != nil {
			b.Fatal(err)
		}
	}
	b.SetBytes(o.SegmentBytes)
	for b.Loop() {
		n := 0
		if _, err := Recover(o, 0, func(Record) error { n++; return nil }); err != nil || n != records {
			b.Fatal(n, err)
		}
	}
}
