package driver_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"runtime"
	"sync"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/gputest"
)

// retain takes a device's context for the test and gives it back when it ends.
func retain(t *testing.T, d *driver.Driver, ordinal int) *driver.Context {
	t.Helper()
	c, err := d.RetainPrimary(ordinal)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, c.Release()) })
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// one returns the value of a call that must succeed.
func one[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// hostMemory maps n bytes outside the Go heap.
func hostMemory(t *testing.T, n int) []byte {
	t.Helper()
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Munmap(b)) })
	return b
}

func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(&b[0]) }

func TestDevices(t *testing.T) {
	doubles := gputest.Build(t)
	doubles.Configure("devices=3,cuda=12080,memory=123456789,ordering=200")
	d := doubles.Open(t)
	if v := one(d.Version())(t); v != 12080 {
		t.Errorf("version %d", v)
	}
	if n := one(d.DeviceCount())(t); n != 3 {
		t.Errorf("%d devices", n)
	}
	seen := map[[16]byte]bool{}
	for i := range 3 {
		info := one(d.Device(i))(t)
		if seen[info.UUID] || info.TotalBytes != 123456789 || info.Major != 9 || info.Name == "" || info.PCIBusID == "" {
			t.Errorf("device %d: %+v", i, info)
		}
		a := info.Attributes
		if !a.UnifiedAddressing || !a.HostRegisterSupported || !a.GPUDirectRDMASupported || a.Integrated || a.WritesOrdering != 200 || a.FlushWritesOptions != driver.FlushHost {
			t.Errorf("device %d: %+v", i, a)
		}
		seen[info.UUID] = true
	}
	if _, err := d.Device(3); !code(err, driver.DomainCUDA, 101) || errors.Is(err, driver.ErrDeviceLost) {
		t.Errorf("a device that is not there: %v", err)
	}
	if missing := d.Missing(); len(missing) != 0 {
		t.Errorf("missing %v", missing)
	}
	doubles.Check(t)
}

// code says whether an error is an [driver.Error] with that number.
func code(err error, domain driver.Domain, n int) bool {
	var e *driver.Error
	return errors.As(err, &e) && e.Domain == domain && e.Code == n
}

func TestCopies(t *testing.T) {
	for _, async := range []string{"async=0", "async=1"} {
		t.Run(async, func(t *testing.T) {
			doubles := gputest.Build(t)
			doubles.Configure(async)
			d := doubles.Open(t)
			c := one(d.RetainPrimary(1))(t)
			const n = 256 << 10
			host := hostMemory(t, 2*n)
			must(t, c.HostRegister(pointer(host), 2*n))
			s := one(c.StreamCreate())(t)
			e := one(c.EventCreate())(t)
			a, b := one(c.MemAlloc(n))(t), one(c.MemAlloc(n))(t)
			must(t, c.SetSyncMemops(a))
			if _, err := rand.Read(host[:n]); err != nil {
				t.Fatal(err)
			}
			must(t, c.CopyHtoDAsync(a, pointer(host), n, s))
			must(t, c.MemsetD8Async(b, 7, n, s))
			must(t, c.CopyDtoDAsync(b+4096, a+4096, n-4096, s))
			must(t, c.CopyDtoHAsync(pointer(host[n:]), b, n, s))
			must(t, c.EventRecord(e, s))
			must(t, c.EventSynchronize(e))
			if done, err := c.EventQuery(e); !done || err != nil {
				t.Errorf("after the wait: %v, %v", done, err)
			}
			if done, err := c.StreamQuery(s); !done || err != nil {
				t.Errorf("after the wait: %v, %v", done, err)
			}
			want := append(bytes.Repeat([]byte{7}, 4096), host[4096:n]...)
			if !bytes.Equal(host[n:], want) || !bytes.Equal(doubles.Bytes(b, n), want) {
				t.Error("wrong bytes")
			}
			must(t, c.FlushWrites())
			free, total, err := c.MemInfo()
			if err != nil || total-free != 2*n {
				t.Errorf("%d of %d free, %v", free, total, err)
			}
			must(t, c.EventDestroy(e))
			must(t, c.StreamDestroy(s))
			must(t, c.MemFree(a))
			must(t, c.MemFree(b))
			must(t, c.HostUnregister(pointer(host)))
			must(t, c.Release())
			must(t, c.Release()) // once is enough
			doubles.Check(t)
		})
	}
}

// TestContextOfGoroutines: goroutines move between threads; none may find itself
// without its context, or in another's.
func TestContextOfGoroutines(t *testing.T) {
	doubles := gputest.Build(t)
	d := doubles.Open(t)
	contexts := []*driver.Context{retain(t, d, 0), retain(t, d, 1)}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			c := contexts[i%2]
			for range 50 {
				p, err := c.MemAlloc(4096)
				runtime.Gosched()
				if err == nil {
					err = c.MemFree(p) // a violation, and an error, in the other's context
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestContextOfHost: what a host application has current on its thread is current
// after every call, failed ones too.
func TestContextOfHost(t *testing.T) {
	doubles := gputest.Build(t)
	d := doubles.Open(t)
	c := retain(t, d, 1)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	use := func() {
		p, err := c.MemAlloc(4096)
		must(t, err)
		must(t, c.MemFree(p))
		doubles.Set("cuMemAlloc_v2", gputest.Fault{Code: 2, Count: 1})
		if _, err := c.MemAlloc(4096); !code(err, driver.DomainCUDA, 2) {
			t.Errorf("got %v", err)
		}
		f, err := d.CuFile()
		must(t, err)
		must(t, f.DriverOpen(c))
		if _, err := f.Read(c, 0, 0, 1, 0, 0); !code(err, driver.DomainCuFile, 5027) {
			t.Errorf("got %v", err)
		}
		must(t, f.DriverClose(c))
	}
	if kept := doubles.Host(0, use); !kept {
		t.Error("another context is current than the host application's")
	}
	use()
	if !doubles.NoContext() {
		t.Error("a context was left current")
	}
}

func random(n int) []byte {
	b := make([]byte, n)
	if _, err := rand.Read(b); err != nil {
		panic(err)
	}
	return b
}
