package driver_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/gputest"
)

// fixture is a device with one of everything.
type fixture struct {
	doubles *gputest.Doubles
	d       *driver.Driver
	c       *driver.Context
	f       *driver.CuFile
	host    []byte
	p       driver.DevicePtr
	s       driver.Stream
	e       driver.Event
	m       driver.Module
	fn      driver.Function
	fd      int
	h       driver.Handle
}

const fixtureBytes = 64 << 10

var ptx = []byte(".version 6.3\n.target sm_75\n.visible .entry kv_xxh64_lanes() { ret; }\n.visible .entry kv_xxh64_finish() { ret; }\n")

// newFixture sets up what the double has functions for; what needs a missing one
// stays zero.
func newFixture(t *testing.T, options ...gputest.Option) *fixture {
	t.Helper()
	x := &fixture{doubles: gputest.Build(t, append(options, gputest.Lenient())...)}
	x.d = x.doubles.Open(t)
	x.c = retain(t, x.d, 0)
	x.host = hostMemory(t, fixtureBytes)
	x.f = one(x.d.CuFile())(t)
	x.fd = openFile(t, fixtureBytes)
	ok := func(err error) {
		t.Helper()
		if err != nil && !errors.Is(err, driver.ErrMissingSymbol) {
			t.Fatal(err)
		}
	}
	var err error
	x.p, err = x.c.MemAlloc(fixtureBytes)
	ok(err)
	ok(x.c.HostRegister(pointer(x.host), fixtureBytes))
	x.s, err = x.c.StreamCreate()
	ok(err)
	x.e, err = x.c.EventCreate()
	ok(err)
	x.m, _, err = x.c.ModuleLoad(ptx)
	ok(err)
	if x.m != 0 {
		x.fn, err = x.c.ModuleFunction(x.m, "kv_xxh64_lanes")
		ok(err)
	}
	ok(x.f.DriverOpen(x.c))
	if x.h, err = x.f.HandleRegister(x.c, x.fd); err != nil && !code(err, driver.DomainCuFile, 5001) {
		ok(err) // 5001: there is no function to open cuFile with
	}
	return x
}

// openFile makes a file of n random bytes and opens it as cuFile wants it.
func openFile(t *testing.T, n int) int {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	must(t, os.WriteFile(name, random(n), 0o600))
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	must(t, err)
	t.Cleanup(func() { must(t, unix.Close(fd)) })
	return fd
}

// call is one function of a library by the method that calls it.
type call struct {
	name string
	do   func(x *fixture) error
	// alone says that the function may be missing without its method failing.
	alone bool
}

func second[T any](_ T, err error) error { return err }

// calls are all functions of both libraries but those that Open itself needs.
var calls = []call{
	{"cuDriverGetVersion", func(x *fixture) error { return second(x.d.Version()) }, false},
	{"cuDeviceGetName", func(x *fixture) error { return second(x.d.Device(0)) }, false},
	{"cuDeviceGetUuid_v2", func(x *fixture) error { return second(x.d.Device(0)) }, true},
	{"cuDeviceGetPCIBusId", func(x *fixture) error { return second(x.d.Device(0)) }, false},
	{"cuDeviceGetAttribute", func(x *fixture) error { return second(x.d.Device(0)) }, false},
	{"cuDeviceTotalMem_v2", func(x *fixture) error { return second(x.d.Device(0)) }, false},
	{"cuMemAlloc_v2", func(x *fixture) error { return second(x.c.MemAlloc(1)) }, false},
	{"cuMemFree_v2", func(x *fixture) error { return x.c.MemFree(x.p) }, false},
	{"cuMemGetInfo_v2", func(x *fixture) error { _, _, err := x.c.MemInfo(); return err }, false},
	{"cuMemHostRegister_v2", func(x *fixture) error { return x.c.HostRegister(pointer(x.host), fixtureBytes) }, false},
	{"cuMemHostUnregister", func(x *fixture) error { return x.c.HostUnregister(pointer(x.host)) }, false},
	{"cuMemcpyHtoDAsync_v2", func(x *fixture) error { return x.c.CopyHtoDAsync(x.p, pointer(x.host), 1, x.s) }, false},
	{"cuMemcpyDtoHAsync_v2", func(x *fixture) error { return x.c.CopyDtoHAsync(pointer(x.host), x.p, 1, x.s) }, false},
	{"cuMemcpyDtoDAsync_v2", func(x *fixture) error { return x.c.CopyDtoDAsync(x.p, x.p+1, 1, x.s) }, false},
	{"cuMemsetD8Async", func(x *fixture) error { return x.c.MemsetD8Async(x.p, 1, 1, x.s) }, false},
	{"cuStreamCreate", func(x *fixture) error { return second(x.c.StreamCreate()) }, false},
	{"cuStreamDestroy_v2", func(x *fixture) error { return x.c.StreamDestroy(x.s) }, false},
	{"cuStreamQuery", func(x *fixture) error { return second(x.c.StreamQuery(x.s)) }, false},
	{"cuStreamSynchronize", func(x *fixture) error { return x.c.StreamSynchronize(x.s) }, false},
	{"cuStreamWaitEvent", func(x *fixture) error { return x.c.StreamWaitEvent(x.s, x.e) }, false},
	{"cuEventCreate", func(x *fixture) error { return second(x.c.EventCreate()) }, false},
	{"cuEventDestroy_v2", func(x *fixture) error { return x.c.EventDestroy(x.e) }, false},
	{"cuEventRecord", func(x *fixture) error { return x.c.EventRecord(x.e, x.s) }, false},
	{"cuEventQuery", func(x *fixture) error { return second(x.c.EventQuery(x.e)) }, false},
	{"cuEventSynchronize", func(x *fixture) error { return x.c.EventSynchronize(x.e) }, false},
	{"cuPointerSetAttribute", func(x *fixture) error { return x.c.SetSyncMemops(x.p) }, false},
	{"cuFlushGPUDirectRDMAWrites", func(x *fixture) error { return x.c.FlushWrites() }, false},
	{"cuModuleLoadDataEx", func(x *fixture) error { _, _, err := x.c.ModuleLoad(ptx); return err }, false},
	{"cuModuleUnload", func(x *fixture) error { return x.c.ModuleUnload(x.m) }, false},
	{"cuModuleGetFunction", func(x *fixture) error { return second(x.c.ModuleFunction(x.m, "kv_xxh64_finish")) }, false},
	{"cuLaunchKernel", func(x *fixture) error {
		return x.c.Launch(x.fn, [3]uint32{1, 1, 1}, [3]uint32{32, 1, 1}, make([]byte, 40), x.s)
	}, false},
	{"cuFileDriverOpen", func(x *fixture) error { return x.f.DriverOpen(x.c) }, false},
	{"cuFileDriverClose_v2", func(x *fixture) error { return x.f.DriverClose(x.c) }, true},
	{"cuFileGetVersion", func(x *fixture) error { return second(x.f.Version()) }, true},
	{"cuFileDriverGetProperties", func(x *fixture) error { return second(x.f.Properties()) }, false},
	{"cuFileHandleRegister", func(x *fixture) error { return second(x.f.HandleRegister(x.c, x.fd)) }, false},
	{"cuFileBufRegister", func(x *fixture) error { return x.f.BufRegister(x.c, x.p, fixtureBytes) }, false},
	{"cuFileBufDeregister", func(x *fixture) error { return x.f.BufDeregister(x.c, x.p) }, false},
	{"cuFileRead", func(x *fixture) error { return second(x.f.Read(x.c, x.h, x.p, 4096, 0, 0)) }, false},
	{"cuFileGetParameterBool", func(x *fixture) error { return second(x.f.Parameter(driver.AllowCompatMode)) }, false},
	{"cuFileSetParameterBool", func(x *fixture) error { return x.f.SetParameter(driver.AllowCompatMode, false) }, false},
	{"cuFileSetParameterString", func(x *fixture) error { return x.f.SetStringParameter(driver.LogDir, "/tmp") }, false},
	{"cuFileSetStatsLevel", func(x *fixture) error { return x.f.SetStatsLevel(3) }, false},
	{"cuFileStatsStart", func(x *fixture) error { return x.f.StatsStart() }, false},
	{"cuFileStatsStop", func(x *fixture) error { return x.f.StatsStop() }, false},
	{"cuFileStatsReset", func(x *fixture) error { return x.f.StatsReset() }, false},
	{"cuFileGetStatsL3", func(x *fixture) error { return second(x.f.RouteCounters([16]byte{})) }, false},
}

// TestEveryCallFails lets each function return a code: the error must carry it,
// and name the function.
func TestEveryCallFails(t *testing.T) {
	x := newFixture(t)
	for _, c := range calls {
		n, domain := 801, driver.DomainCUDA
		if strings.HasPrefix(c.name, "cuFile") {
			n, domain = 5030, driver.DomainCuFile
		}
		x.doubles.Set(c.name, gputest.Fault{Code: n, Count: 1})
		err := c.do(x)
		var e *driver.Error
		if !errors.As(err, &e) || e.Domain != domain || e.Code != n || e.Call != c.name || e.Name == "" {
			t.Errorf("%s: %v", c.name, err)
		}
		if x.doubles.Fired(c.name) != 1 {
			t.Errorf("%s: the fault did not fire", c.name)
		}
		x.doubles.Clear()
	}
	x.doubles.Set("cuFileHandleDeregister", gputest.Fault{Kind: gputest.Hang, Count: 1})
	done := make(chan error, 1)
	go func() { done <- x.f.HandleDeregister(x.c, x.h) }()
	x.doubles.WaitHanging(1)
	x.doubles.Release()
	must(t, <-done)
}

// TestEveryCallMissing leaves each function out of the library: its method says
// so, and nothing else fails.
func TestEveryCallMissing(t *testing.T) {
	without := []string{}
	for _, c := range calls {
		without = append(without, c.name)
	}
	if testing.Short() {
		missingAtOnce(t, without)
		return
	}
	for _, c := range calls {
		x := newFixture(t, gputest.Without(c.name))
		if err := c.do(x); c.alone == errors.Is(err, driver.ErrMissingSymbol) || c.alone != (err == nil) {
			t.Errorf("without %s: %v", c.name, err)
		} else if err != nil && !strings.Contains(err.Error(), c.name) {
			t.Errorf("the error does not name %s: %v", c.name, err)
		}
		if gone := append(x.d.Missing(), x.f.Missing()...); len(gone) != 1 || gone[0] != c.name {
			t.Errorf("without %s, missing are %v", c.name, gone)
		}
	}
	missingAtOnce(t, without)
}

// missingAtOnce leaves out all functions that are not essential.
func missingAtOnce(t *testing.T, without []string) {
	t.Helper()
	without = append(without, "cuDeviceGetUuid", "cuFileDriverClose", "cuFileHandleDeregister")
	x := newFixture(t, gputest.Without(without...))
	for _, c := range calls {
		err := c.do(x)
		if c.name == "cuFileGetVersion" {
			must(t, err) // an old library, which has no such function
			continue
		}
		if c.name == "cuFileGetStatsL3" && errors.Is(err, driver.ErrCounters) {
			continue // of an old version
		}
		if !errors.Is(err, driver.ErrMissingSymbol) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if err := x.f.HandleDeregister(x.c, 1); !errors.Is(err, driver.ErrMissingSymbol) {
		t.Errorf("cuFileHandleDeregister: %v", err)
	}
	if got := len(x.d.Missing()) + len(x.f.Missing()); got != len(without) {
		t.Errorf("%d functions missing, want %d", got, len(without))
	}
}

// TestOpenMissing: without what nothing works without there is no driver.
func TestOpenMissing(t *testing.T) {
	for _, name := range []string{"cuInit", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2", "cuDevicePrimaryCtxRetain"} {
		doubles := gputest.Build(t, gputest.Without(name))
		_, err := driver.Open(doubles.Options())
		if !errors.Is(err, driver.ErrUnavailable) || !errors.Is(err, driver.ErrMissingSymbol) || !strings.Contains(err.Error(), name) {
			t.Errorf("without %s: %v", name, err)
		}
	}
}

// TestOpenRefused: cuInit says no.
func TestOpenRefused(t *testing.T) {
	for _, c := range []struct {
		spec string
		code int
		says string
	}{
		{"devices=0", 100, "CUDA_VISIBLE_DEVICES"},
		{"cuInit=34", 34, "stub"},
		{"cuInit=803", 803, "reboot"},
		{"cuInit=999", 999, "Xid"},
	} {
		doubles := gputest.Build(t)
		doubles.Configure(c.spec)
		_, err := driver.Open(doubles.Options())
		if !errors.Is(err, driver.ErrUnavailable) || errors.Is(err, driver.ErrDeviceLost) || !code(err, driver.DomainCUDA, c.code) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.spec, err)
		}
	}
}

// TestLibraryMissing names the library and what the loader said.
func TestLibraryMissing(t *testing.T) {
	doubles := gputest.Build(t)
	o := doubles.Options()
	o.CuFilePath += ".gone"
	d, err := driver.Open(o)
	must(t, err)
	for range 2 {
		if _, err = d.CuFile(); !errors.Is(err, driver.ErrUnavailable) || !strings.Contains(err.Error(), o.CuFilePath) || !strings.Contains(err.Error(), "No such file") {
			t.Errorf("got %v", err)
		}
	}
	b, err := os.ReadFile(doubles.CuFilePath)
	must(t, err)
	must(t, os.WriteFile(o.CuFilePath, b, 0o700))
	if _, err = d.CuFile(); err != nil {
		t.Errorf("installed later: %v", err)
	}
	must(t, os.WriteFile(filepath.Join(t.TempDir(), "no-library"), []byte("text"), 0o600))
	o.CUDAPath = doubles.CUDAPath + ".text"
	must(t, os.WriteFile(o.CUDAPath, []byte("text"), 0o600))
	if _, err = driver.Open(o); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("a library that is none: %v", err)
	}
}

// TestDeviceLost: after a sticky error every call fails with ErrDeviceLost, the
// other device works, and whoever waits is woken.
func TestDeviceLost(t *testing.T) {
	for _, sticky := range []int{214, 700, 702, 719} {
		x := newFixture(t)
		x.doubles.Set("cuMemsetD8Async", gputest.Fault{Kind: gputest.Stuck})
		must(t, x.c.MemsetD8Async(x.p, 1, 1, x.s))
		must(t, x.c.EventRecord(x.e, x.s))
		woken := make(chan error, 1)
		go func() { woken <- x.c.EventSynchronize(x.e) }()
		x.doubles.Set("cuStreamQuery", gputest.Fault{Code: sticky, Count: 1})
		if _, err := x.c.StreamQuery(x.s); !errors.Is(err, driver.ErrDeviceLost) {
			t.Errorf("%d: %v", sticky, err)
		}
		select {
		case err := <-woken:
			if !errors.Is(err, driver.ErrDeviceLost) {
				t.Errorf("%d: who waited got %v", sticky, err)
			}
		case <-time.After(time.Minute):
			t.Fatal("who waits is not woken")
		}
		for _, c := range calls {
			err := c.do(x)
			if inContext[c.name] && !errors.Is(err, driver.ErrDeviceLost) {
				t.Errorf("%d, then %s: %v", sticky, c.name, err)
			}
		}
		other := retain(t, x.d, 1)
		p, err := other.MemAlloc(1)
		must(t, err)
		must(t, other.MemFree(p))
	}
}

// inContext are the calls that fail once the context is dead.
var inContext = map[string]bool{}

func init() {
	for _, c := range calls {
		switch {
		case strings.HasPrefix(c.name, "cuDevice"), c.name == "cuDriverGetVersion":
		case strings.HasPrefix(c.name, "cuFile"):
			inContext[c.name] = c.name == "cuFileHandleRegister" || strings.HasPrefix(c.name, "cuFileBuf")
		default:
			inContext[c.name] = true
		}
	}
}
