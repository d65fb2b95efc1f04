package wal

import (
	"errors"
	"io"
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealstone/sealstone/internal/vfs"
)

// fataler is what *testing.T, *testing.F and *rapid.T have in common.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// testOptions are those of small files with the same bytes in every run.
func testOptions(fs vfs.FS) Options {
	salt := uint64(0x5ea1)
	return Options{
		FS: fs, Dir: "wal", UUID: [16]byte{1, 2, 3}, SegmentBytes: MinSegmentBytes,
		salt: func() uint64 { salt++; return salt },
	}
}

func mustCreate(t testing.TB, o Options, base LSN) *Log {
	t.Helper()
	l, err := Create(o, base)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, ErrPoisoned) {
			t.Error(err)
		}
	})
	return l
}

func mustAppend(t testing.TB, l *Log, records ...string) (first, end LSN) {
	t.Helper()
	var group [][]byte
	for _, r := range records {
		group = append(group, []byte(r))
	}
	first, end, err := l.Append(group...)
	if err != nil {
		t.Fatal(err)
	}
	return first, end
}

func mustSync(t testing.TB, l *Log) LSN {
	t.Helper()
	end, err := l.Sync()
	if err != nil {
		t.Fatal(err)
	}
	return end
}

// mustRecover gives what Recover found and the records' bytes.
func mustRecover(t fataler, o Options, from LSN) (*Recovered, []string) {
	t.Helper()
	var got []string
	r, err := Recover(o, from, func(r Record) error {
		got = append(got, string(r.Data))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return r, got
}

func wantStrings(t testing.TB, got []string, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("records differ (-want +got):\n%s", d)
	}
}

func readAll(t testing.TB, fs vfs.FS, name string) []byte {
	t.Helper()
	f, err := fs.Open(name, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, info.SizeBytes)
	if n, err := f.ReadAt(p, 0); n != len(p) && err != io.EOF {
		t.Fatal(err)
	}
	return p
}

// putFile makes or replaces a file.
func putFile(t testing.TB, fs vfs.FS, name string, data []byte) {
	t.Helper()
	if err := fs.MkdirAll(path.Dir(name)); err != nil {
		t.Fatal(err)
	}
	f, err := fs.Open(name, vfs.Create|vfs.Trunc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt(data, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// flip changes one byte of a file.
func flip(t testing.TB, fs vfs.FS, name string, off int64) {
	t.Helper()
	f, err := fs.Open(name, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], off); err != nil && err != io.EOF {
		t.Fatal(err)
	}
	b[0] ^= 0x40
	if _, err := f.WriteAt(b[:], off); err != nil {
		t.Fatal(err)
	}
}

// isPrefix reports whether a is the beginning of b.
func isPrefix(a, b []string) bool { return len(a) <= len(b) && slices.Equal(a, b[:len(a)]) }
