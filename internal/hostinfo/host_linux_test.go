package hostinfo

import (
	"errors"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHost holds what is read against what other system calls say.
func TestHost(t *testing.T) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	if got := KernelRelease(); got != unix.ByteSliceToString(u.Release[:]) {
		t.Errorf("release %q", got)
	}
	if id := BootID(); len(id) != 36 || strings.Count(id, "-") != 4 {
		t.Errorf("boot id %q", id)
	}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if got := OpenFilesLimit(); got != int64(l.Cur) && got != Unlimited {
		t.Errorf("%d open files, want %d", got, l.Cur)
	}
	if MemlockLimit() < Unlimited {
		t.Errorf("memlock %d", MemlockLimit())
	}
	if level, ok := UringDisabled(); ok && (level < 0 || level > 2) {
		t.Errorf("kernel.io_uring_disabled is %d", level)
	}
}

func TestFilesystemAt(t *testing.T) {
	f, err := FilesystemAt("/proc")
	if err != nil || f != FilesystemOf(unix.PROC_SUPER_MAGIC) {
		t.Errorf("%+v, %v", f, err)
	}
	if _, err := FilesystemAt("/nonexistent/x"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

func TestReadFile(t *testing.T) {
	f, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := ReadFile(f.Fd())
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	if got.Major != unix.Major(st.Dev) || got.Minor != unix.Minor(st.Dev) || got.BlockBytes <= 0 || got.Filesystem.Name == "" {
		t.Errorf("%+v", got)
	}
	if got.Told && (got.MemAlignBytes == 0) != (got.OffsetAlignBytes == 0) {
		t.Errorf("statx: %+v", got)
	}
	if _, err := ReadFile(^uintptr(0)); err == nil {
		t.Error("no error for a descriptor that is none")
	}
}
