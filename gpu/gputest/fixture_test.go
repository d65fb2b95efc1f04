package gputest

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sealstone/sealstone/gpu/driver"
)

// rig is a device with a stream, pinned memory and two allocations.
type rig struct {
	t    *testing.T
	d    *Doubles
	dr   *driver.Driver
	c    *driver.Context
	s    driver.Stream
	host []byte
	a, b driver.DevicePtr
}

const rigBytes = 64 << 10

func newRig(t *testing.T, options ...Option) *rig {
	t.Helper()
	r := &rig{t: t, d: Build(t, options...)}
	r.dr = r.d.Open(t)
	var err error
	r.c, err = r.dr.RetainPrimary(0)
	r.must(err)
	r.s, err = r.c.StreamCreate()
	r.must(err)
	r.host, err = unix.Mmap(-1, 0, rigBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	r.must(err)
	r.must(r.c.HostRegister(unsafe.Pointer(&r.host[0]), rigBytes))
	r.a, err = r.c.MemAlloc(rigBytes)
	r.must(err)
	r.b, err = r.c.MemAlloc(rigBytes)
	r.must(err)
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) pinned() unsafe.Pointer { return unsafe.Pointer(&r.host[0]) }

// hold keeps all work queued until Release.
func (r *rig) hold() {
	r.t.Helper()
	r.d.Set("cuMemsetD8Async", Fault{Kind: Stuck, Count: 1})
	r.must(r.c.MemsetD8Async(r.b, 0, 1, r.s))
}

// free gives everything back.
func (r *rig) free() {
	r.t.Helper()
	r.must(r.c.StreamSynchronize(r.s))
	r.must(r.c.StreamDestroy(r.s))
	r.must(r.c.HostUnregister(r.pinned()))
	r.must(unix.Munmap(r.host))
	r.must(r.c.MemFree(r.a))
	r.must(r.c.MemFree(r.b))
	r.must(r.c.Release())
}

// file makes a file of random bytes, registers it and registers a's memory.
func (r *rig) file(n int) (*driver.CuFile, driver.Handle, []byte) {
	r.t.Helper()
	name := filepath.Join(r.t.TempDir(), "file")
	content := randomBytes(n)
	r.must(os.WriteFile(name, content, 0o600))
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	r.must(err)
	r.t.Cleanup(func() { r.must(unix.Close(fd)) })
	f, err := r.dr.CuFile()
	r.must(err)
	r.must(f.SetStatsLevel(3))
	r.must(f.DriverOpen(r.c))
	r.must(f.StatsStart())
	h, err := f.HandleRegister(r.c, fd)
	r.must(err)
	r.must(f.BufRegister(r.c, r.a, rigBytes))
	return f, h, content
}

func randomBytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rand.Uint32())
	}
	return b
}
