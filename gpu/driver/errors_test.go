package driver

import (
	"errors"
	"syscall"
	"testing"
)

// TestOpenWithoutLibrary holds on every build: no library is no crash.
func TestOpenWithoutLibrary(t *testing.T) {
	d, err := Open(Options{CUDAPath: "libcuda-that-is-not-there.so"})
	if d != nil || !errors.Is(err, ErrUnavailable) {
		t.Fatalf("Open = %v, %v; want ErrUnavailable", d, err)
	}
	t.Log(err)
}

func TestDecodeRead(t *testing.T) {
	for _, c := range []struct {
		name   string
		n      int64
		errno  syscall.Errno
		got    int64
		domain Domain
		code   int
	}{
		{"all", 4096, 0, 4096, 0, 0},
		{"errno is left over from before", 4096, syscall.EIO, 4096, 0, 0},
		{"short", 100, 0, 100, 0, 0},
		{"nothing", 0, 0, 0, 0, 0},
		{"too much", 4097, 0, 0, DomainCuFile, 5030},
		{"-1 and EIO", -1, syscall.EIO, 0, DomainSystem, int(syscall.EIO)},
		{"-1 and a cuFile code", -1, 5027, 0, DomainCuFile, 5027},
		{"-1 and nothing", -1, 0, 0, DomainSystem, int(syscall.EIO)},
		{"negated code", -5010, 0, 0, DomainCuFile, 5010},
		{"negated errno", -5, 0, 0, DomainSystem, int(syscall.EIO)},
		{"negated errno, errno set too", -22, syscall.EIO, 0, DomainSystem, int(syscall.EINVAL)},
		{"unknown", -70000, 0, 0, DomainCuFile, 70000},
		{"the smallest", -1 << 63, 0, 0, DomainCuFile, -1 << 63},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := decodeRead(c.n, c.errno, 4096)
			if c.code == 0 {
				if err != nil || got != c.got {
					t.Fatalf("got %d, %v; want %d", got, err, c.got)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) || e.Domain != c.domain || e.Code != c.code || got != 0 {
				t.Fatalf("got %d, %+v; want %v %d", got, err, c.domain, c.code)
			}
		})
	}
}
