package canary

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealstone/sealstone/gpu"
	"golang.org/x/sys/unix"
)

// TestSweep: folders that killed trials left are removed, those of others stay.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-2 * sweepAge)
	const left, young, held = "sealstone-canary-0000000000000001.tmp", "sealstone-canary-0000000000000002.tmp", "sealstone-canary-0000000000000003.tmp"
	for _, name := range []string{left, young, held, "sealstone-canary-1.tmp", "sealstone-canary-0000000000000001.tmp.bak", "data"} {
		mkdirs(t, filepath.Join(dir, name))
		if err := os.WriteFile(filepath.Join(dir, name, fileName), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		if name != young {
			if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	// A link of that name leads elsewhere.
	outside := filepath.Join(t.TempDir(), "outside")
	mkdirs(t, outside)
	if err := os.Symlink(outside, filepath.Join(dir, "sealstone-canary-0000000000000004.tmp")); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, held))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	sweep(dir)
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 6 {
		t.Errorf("%v stay, want all but %s", list, left)
	}
	if _, err := os.Stat(filepath.Join(dir, left)); !os.IsNotExist(err) {
		t.Errorf("%s: %v", left, err)
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
	sweep(filepath.Join(dir, "none")) // is no trouble
}

func mkdirs(t *testing.T, name string) {
	t.Helper()
	if err := os.MkdirAll(name, 0o700); err != nil {
		t.Fatal(err)
	}
}

// TestFillChangesEverything: the second content is another one, in the same
// file, at the same places.
func TestFillChangesEverything(t *testing.T) {
	s := scratchFile{content: make([]byte, 256<<10)}
	if err := s.create(filepath.Join(t.TempDir(), "x")); err != nil {
		t.Fatal(err)
	}
	defer s.remove()
	inode := func() uint64 {
		var st unix.Stat_t
		if err := unix.Fstat(int(s.f.Fd()), &st); err != nil {
			t.Fatal(err)
		}
		return st.Ino
	}
	if f := s.fill(); f != nil || s.before != nil {
		t.Fatalf("%+v, before %d bytes", f, len(s.before))
	}
	first, ino := s.content, inode()
	s.handle = 1
	if f := s.fill(); f != nil {
		t.Fatalf("%+v", f)
	}
	if &s.before[0] != &first[0] || inode() != ino {
		t.Error("the first content is not kept, or the file is another one")
	}
	for at := 0; at < len(first); at += pageBytes {
		if firstDifference(first[at:at+pageBytes], s.content[at:at+pageBytes]) == pageBytes {
			t.Fatalf("the page at %d is the same", at)
		}
	}
	got := make([]byte, len(s.content))
	if _, err := s.f.ReadAt(got, 0); err != nil || firstDifference(got, s.content) != len(got) {
		t.Errorf("the file does not hold its content (%v)", err)
	}
	if flags, err := unix.FcntlInt(s.direct.Fd(), unix.F_GETFL, 0); err != nil || flags&unix.O_DIRECT == 0 || flags&unix.O_NOFOLLOW != 0 {
		t.Errorf("the descriptor for cuFile has the flags %#x (%v)", flags, err)
	}
}

func TestCheckWhole(t *testing.T) {
	for _, c := range []struct {
		want, size, allocated int64
		whole                 bool
	}{{8192, 8192, 8192, true}, {8192, 8192, 12288, true}, {8192, 8192, 4096, false}, {8192, 4096, 8192, false}, {8192, 8192, 0, false}} {
		if f := checkWhole(c.want, c.size, c.allocated); (f == nil) != c.whole {
			t.Errorf("%+v: %+v", c, f)
		}
	}
}

// TestPlace: the same directory is the same place, and another file system is
// another one in each of its fields.
func TestPlace(t *testing.T) {
	at := func(dir string) (k gpu.VerdictKey) {
		t.Helper()
		if err := placeOf(dir, &k); err != nil {
			t.Fatal(err)
		}
		return k
	}
	dir := t.TempDir()
	a, b := at(dir), at("/proc")
	if a != at(dir) {
		t.Errorf("%+v is not itself", a)
	}
	if a.Device == "" || a.MountID == 0 || a.Mount == "" || a.Filesystem == "" {
		t.Errorf("a place with holes: %+v", a)
	}
	if a.Device == b.Device || a.MountID == b.MountID || a.Mount == b.Mount || a.Filesystem == b.Filesystem || b.Filesystem != "proc" {
		t.Errorf("%+v and %+v", a, b)
	}
	var k gpu.VerdictKey
	for _, bad := range []string{filepath.Join(dir, "none"), "/proc/self/status"} {
		if err := placeOf(bad, &k); err == nil {
			t.Errorf("%s is a place: %+v", bad, k)
		}
	}
}
