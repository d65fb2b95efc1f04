package gputest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sealstone/sealstone/gpu/driver"
)

// TestOpenFlags: flags that cuFile refuses are refused here too.
func TestOpenFlags(t *testing.T) {
	r := newRig(t)
	f, _, _ := r.file(4096)
	name := filepath.Join(t.TempDir(), "file")
	r.must(os.WriteFile(name, make([]byte, 4096), 0o600))
	for flags, code := range map[int]int{
		0: 0, unix.O_RDWR: 0, unix.O_NOFOLLOW: 5019, unix.O_RDWR | unix.O_APPEND: 5019, unix.O_NOATIME: 5019,
	} {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0)
		r.must(err)
		h, err := f.HandleRegister(r.c, fd)
		var e *driver.Error
		if code == 0 {
			r.must(err)
			r.must(f.HandleDeregister(r.c, h))
		} else if !errors.As(err, &e) || e.Code != code {
			t.Errorf("flags %#x: %v, want %d", flags, err, code)
		}
		r.must(unix.Close(fd))
	}
}
