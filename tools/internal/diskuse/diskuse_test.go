package diskuse

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestBytesCountsUnlinkedOpenFiles(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("open files of a process are visible on Linux only")
	}
	dir := t.TempDir()
	base := bytesOf(t, dir)
	const size = 1 << 20
	f := create(t, filepath.Join(dir, "sub", "file"), size)
	withFile := bytesOf(t, dir)
	if got := withFile - base; got < size {
		t.Fatalf("a file of %d bytes adds %d", size, got)
	}
	if err := os.Link(f.Name(), filepath.Join(dir, "again")); err != nil {
		t.Fatal(err)
	}
	if got := bytesOf(t, dir); got != withFile {
		t.Errorf("a hard link changes %d to %d bytes", withFile, got)
	}
	for _, name := range []string{f.Name(), filepath.Join(dir, "again")} {
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
	}
	if got := bytesOf(t, dir); got != withFile {
		t.Errorf("unlinked but open: %d bytes, want %d", got, withFile)
	}
	f.Close()
	if got := withFile - bytesOf(t, dir); got < size {
		t.Errorf("closing the last handle gives %d bytes back, want at least %d", got, size)
	}
}

func TestCommon(t *testing.T) {
	a, b, c := identity{ino: 1}, identity{ino: 2}, identity{ino: 2, birth: 9}
	for _, x := range []struct {
		name          string
		before, after usage
		want          int64
	}{
		{"first scan", nil, usage{a: 5}, 0},
		{"nothing moved", usage{a: 5, b: 7}, usage{a: 5, b: 7}, 12},
		{"one grew, one was cut", usage{a: 5, b: 7}, usage{a: 9, b: 1}, 6},
		{"one went, one came", usage{a: 5, b: 7}, usage{a: 5, c: 7}, 5},
	} {
		if got := common(x.before, x.after); got != x.want {
			t.Errorf("%s: %d, want %d", x.name, got, x.want)
		}
	}
}

func TestWatcherKeepsTheMaximum(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	w := Watch(dir, time.Millisecond, os.Getpid())
	f := create(t, filepath.Join(dir, "file"), 4<<20)
	for {
		if bytes, samples, err := w.Max(); err != nil {
			t.Fatal(err)
		} else if bytes >= 4<<20 && samples > 1 {
			break
		}
		runtime.Gosched()
	}
	f.Close()
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	w.Stop()
	if bytes, _, err := w.Max(); err != nil || bytes < 4<<20 || bytes > 5<<20 {
		t.Errorf("Max = %d, %v; want 4 MiB and a little", bytes, err)
	}
}

func TestWatcherKeepsTheError(t *testing.T) {
	if os.Getuid() == 0 {
		// Root reads everything: a directory that cannot be walked is one
		// whose name is a file.
		name := filepath.Join(t.TempDir(), "file")
		create(t, name, 1).Close()
		w := Watch(filepath.Join(name, "below"), time.Hour)
		w.Stop()
		if _, _, err := w.Max(); err == nil {
			t.Error("a path below a file was sampled without an error")
		}
		return
	}
	dir := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(dir, 0); err != nil {
		t.Fatal(err)
	}
	w := Watch(dir, time.Hour)
	w.Stop()
	if _, _, err := w.Max(); err == nil {
		t.Error("an unreadable directory was sampled without an error")
	}
}

func create(t *testing.T, name string, size int) *os.File {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	if err := f.Sync(); err != nil { // delayed allocation would hide the blocks
		t.Fatal(err)
	}
	return f
}

func bytesOf(t *testing.T, dir string) int64 {
	t.Helper()
	n, err := Bytes(dir, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return n
}
