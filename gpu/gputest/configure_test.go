package gputest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/gpu/driver"
)

// TestBadSpecs: what the doubles cannot do is refused. A fault that never fires
// would look like one that was survived.
func TestBadSpecs(t *testing.T) {
	d := Build(t)
	for spec, want := range map[string]string{
		"cuFileReed=stale":         "unknown call",
		"cuFileRead":               "want name=value",
		"cuFileRead=slow":          "unknown kind",
		"cuFileRead=":              "unknown kind",
		"cuMemAlloc_v2=stale":      "cannot do this",
		"cuFileRead=skip":          "cannot do this",
		"cuLaunchKernel=half":      "cannot do this",
		"cuStreamQuery=stuck":      "cannot do this",
		"cuFileHandleDeregister=5": "cannot do this",
		"nvmlInit_v2=hang":         "cannot do this",
		"cuFileRead=stale@0":       "from 1",
		"cuFileRead=stale@2-3":     "from 1",
		"cuFileRead=stale/x":       "/device",
		"cuFileRead=stale/":        "/device",
		"cuFileRead=errno:x":       ":number",
		"cuFileRead=errno:":        ":number",
		"devices=17":               "out of range",
		"devices=x":                "out of range",
		"route=fast":               "nvfs, p2p or none",
		"memory=x":                 "want bytes",
		"virt=1/x":                 "mode or mode/device",
		"devices=1,cuX=1":          "unknown call",
		strings.Repeat("x", 200):   "too long",
	} {
		if _, err := d.l.command("set " + spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", spec, err, want)
		}
	}
	if _, err := d.l.command("jump"); err == nil {
		t.Error("an unknown command was taken")
	}
}

// TestFaultCounting: from, count and device mean what they say.
func TestFaultCounting(t *testing.T) {
	r := newRig(t)
	other, err := r.dr.RetainPrimary(1)
	r.must(err)
	info := func(c *driver.Context) bool { _, _, err := c.MemInfo(); return err == nil }
	r.d.Set("cuMemGetInfo_v2", Fault{Code: 801, From: 2, Count: 2, Only: OnDevice(1)})
	var got []bool
	for range 5 {
		got = append(got, info(r.c), info(other))
	}
	for i, ok := range got {
		if want := i%2 == 0 || i/2 == 0 || i/2 > 2; ok != want {
			t.Errorf("call %d on device %d: %v, want %v", i/2+1, i%2, ok, want)
		}
	}
	if r.d.Fired("cuMemGetInfo_v2") != 2 || r.d.Calls("cuMemGetInfo_v2") != 10 {
		t.Errorf("fired %d of %d", r.d.Fired("cuMemGetInfo_v2"), r.d.Calls("cuMemGetInfo_v2"))
	}
	r.d.Set("cuMemGetInfo_v2", Fault{Code: 801})
	if info(r.c) {
		t.Error("the second fault does not fire")
	}
	r.d.Clear()
	if !info(r.c) {
		t.Error("a fault fires after Clear")
	}
	r.d.Configure("devices=5,cuMemGetInfo_v2=801")
	r.d.Reset()
	if n, err := r.dr.DeviceCount(); err != nil || n != 2 || !info(r.c) || r.d.Fired("cuMemGetInfo_v2") != 0 {
		t.Errorf("after Reset: %d devices, %v", n, err)
	}
}

// TestSeparate: each Build has state of its own.
func TestSeparate(t *testing.T) {
	a, b := newRig(t), newRig(t)
	a.d.Configure("cuMemGetInfo_v2=801,cuFileDriverOpen=5001")
	if _, _, err := a.c.MemInfo(); err == nil {
		t.Error("the fault does not fire")
	}
	if _, _, err := b.c.MemInfo(); err != nil {
		t.Errorf("another double fails: %v", err)
	}
	f, err := b.dr.CuFile()
	b.must(err)
	b.must(f.DriverOpen(b.c))
	if len(b.d.Leaks()) != len(a.d.Leaks())+1 {
		t.Errorf("leaks are %q and %q", a.d.Leaks(), b.d.Leaks())
	}
}

// TestChild: a child process has the same faults, and its violations come back.
func TestChild(t *testing.T) {
	if dir := os.Getenv("GPUTEST_CHILD"); dir != "" {
		child(t, dir)
		return
	}
	d := Build(t, Lenient())
	d.Set("cuMemAlloc_v2", Fault{Code: 2, From: 2, Count: 1})
	d.Configure("devices=7")
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$", "-test.v")
	cmd.Env = append(append(os.Environ(), d.Env()...), "GPUTEST_CHILD="+filepath.Dir(d.CUDAPath))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	log, err := os.ReadFile(d.log)
	if err != nil || !strings.Contains(string(log), "fault cuMemAlloc_v2 call 2\n") {
		t.Errorf("log %q, %v", log, err)
	}
	if v := d.Violations(); len(v) != 1 || !strings.Contains(v[0], "in a child process: cuMemFree_v2 of an address") {
		t.Errorf("violations of the child: %q", v)
	}
	cmd = exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), "SEALSTONE_FAKE_GPU=cuFileReed=1", "GPUTEST_CHILD="+filepath.Dir(d.CUDAPath))
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "unknown call") {
		t.Errorf("a fault that is none: %v\n%s", err, out)
	}
}

func child(t *testing.T, dir string) {
	dr, err := driver.Open(driver.Options{CUDAPath: filepath.Join(dir, "libcuda.so.1")})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := dr.DeviceCount(); n != 7 || err != nil {
		t.Errorf("%d devices, %v", n, err)
	}
	c, err := dr.RetainPrimary(6)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.MemAlloc(1); err != nil {
		t.Error(err)
	}
	var e *driver.Error
	if _, err := c.MemAlloc(1); !errors.As(err, &e) || e.Code != 2 {
		t.Errorf("the second call: %v", err)
	}
	if err := c.MemFree(12345); err == nil {
		t.Error("what is not allocated was freed")
	}
}

// TestHang: a call that hangs blocks its caller only, until it is released.
func TestHang(t *testing.T) {
	r := newRig(t)
	f, h, content := r.file(rigBytes)
	r.d.Set("cuFileRead", Fault{Kind: Hang, From: 2, Count: 1})
	_, err := f.Read(r.c, h, r.a, 4096, 0, 0)
	r.must(err)
	done := make(chan error, 1)
	go func() { _, err := f.Read(r.c, h, r.a, 4096, 4096, 4096); done <- err }()
	r.d.WaitHanging(1)
	_, err = f.Read(r.c, h, r.a, 4096, 8192, 8192)
	r.must(err)
	select {
	case err := <-done:
		t.Fatalf("it did not hang: %v", err)
	default:
	}
	r.d.Release()
	r.must(<-done)
	if string(r.d.Bytes(r.a, 12288)) != string(content[:12288]) || r.d.Hanging() != 0 {
		t.Error("the bytes are not there")
	}
}

// TestDescriptor: the file behind a handle must be the one that was registered.
func TestDescriptor(t *testing.T) {
	r := newRig(t, Lenient())
	f, _, _ := r.file(4096)
	name := filepath.Join(t.TempDir(), "file")
	r.must(os.WriteFile(name, make([]byte, 4096), 0o600))
	open := func() *os.File {
		file, err := os.Open(name)
		r.must(err)
		return file
	}
	file := open()
	fd := int(file.Fd())
	h, err := f.HandleRegister(r.c, fd)
	r.must(err)
	var e *driver.Error
	if _, err := f.HandleRegister(r.c, fd); !errors.As(err, &e) || e.Code != 5028 {
		t.Errorf("registered twice: %v", err)
	}
	r.must(file.Close())
	if _, err := f.Read(r.c, h, r.a, 4096, 0, 0); err == nil {
		t.Error("a read of a closed file succeeded")
	}
	r.must(f.HandleDeregister(r.c, h))
	found := strings.Join(r.d.Violations(), "\n")
	if !strings.Contains(found, "is in use again or free") || !strings.Contains(found, "was closed before cuFileHandleDeregister") {
		t.Errorf("violations are %q", found)
	}
	dir, err := os.Open(t.TempDir())
	r.must(err)
	defer dir.Close()
	if _, err := f.HandleRegister(r.c, int(dir.Fd())); !errors.As(err, &e) || e.Code != 5018 {
		t.Errorf("a directory: %v", err)
	}
}
