package driver_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/gputest"
)

// realDeadline ends a child in which the library hangs.
const realDeadline = 20 * time.Second

// realCalls are what is called on libcufile. The last ones make the library open
// itself where it is not open, so each of them has a process of its own.
var realCalls = []string{"settings", "DriverOpen strict", "DriverOpen compat", "Properties", "HandleRegister", "BufRegister",
	"BufDeregister", "Read", "DriverClose"}

// TestRealCuFile calls NVIDIA's own libcufile on a machine without a GPU: each
// call must be refused in a way that is decoded, or do what it says, and the
// process must survive it. The library is in the PyPI package nvidia-cufile.
func TestRealCuFile(t *testing.T) {
	lib := os.Getenv("SEALSTONE_CUFILE")
	if lib == "" {
		t.Skip("SEALSTONE_CUFILE does not name a libcufile.so.0")
	}
	if what := os.Getenv("SEALSTONE_CUFILE_CHILD"); what != "" {
		realCuFile(t, lib, what)
		return
	}
	for _, what := range realCalls {
		t.Run(what, func(t *testing.T) { realChild(t, what) })
	}
}

// realChild makes a call in a process of its own, in a directory of its own: the
// library keeps threads, and would write its log into the working directory.
func realChild(t *testing.T, what string) {
	dir := t.TempDir()
	ctx, cancel := context.WithTimeout(context.Background(), realDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestRealCuFile$", "-test.v")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "SEALSTONE_CUFILE_CHILD="+what)
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if _, err := os.Stat(filepath.Join(dir, "cufile.log")); err == nil {
		t.Error("cufile.log lies in the working directory, against LogDir")
	}
	if err == nil {
		return
	}
	// Version 1.20 reads /proc/modules unless strict mode refuses before, and
	// where the kernel has none it loops for ever. A call that hangs cannot be
	// ended, which is why package gpu never makes one without a deadline.
	_, modules := os.Stat("/proc/modules")
	if ctx.Err() != nil && modules != nil && strings.HasSuffix(string(out), "calling "+what+"\n") {
		t.Log("it did not return")
		return
	}
	t.Errorf("the child: %v", err)
}

func realCuFile(t *testing.T, lib, what string) {
	doubles := gputest.Build(t)
	d, err := driver.Open(driver.Options{CUDAPath: doubles.CUDAPath, CuFilePath: lib})
	must(t, err)
	f, err := d.CuFile()
	must(t, err)
	report := func(name string, v any, err error) {
		fmt.Printf("%s: %v, %v\n", name, v, err)
		if err != nil {
			decoded(t, name, err)
		}
	}
	if what == "settings" {
		fmt.Printf("missing functions: %v\n", f.Missing())
		v, err := f.Version()
		report("Version", v, err)
		report("SetStatsLevel", "", f.SetStatsLevel(3))
		report("StatsStart", "", f.StatsStart())
		c, err := f.RouteCounters([16]byte{1})
		report("RouteCounters", c, err)
	}
	must(t, f.SetStringParameter(driver.LogDir, t.TempDir()))
	must(t, f.SetParameter(driver.AllowCompatMode, what == "DriverOpen compat"))
	for _, p := range []driver.BoolParameter{driver.AllowCompatMode, driver.ForceCompatMode, driver.PosixIOMode, driver.FallbackIO, 99} {
		on, err := f.Parameter(p)
		report(fmt.Sprintf("Parameter %d", p), on, err)
	}
	if what == "settings" {
		return
	}
	fd := openFile(t, 65536)
	fmt.Printf("calling %s\n", what)
	v, err := any(""), error(nil)
	switch what {
	case "DriverOpen strict", "DriverOpen compat":
		err = f.DriverOpen(nil)
	case "Properties":
		v, err = f.Properties()
	case "HandleRegister":
		v, err = f.HandleRegister(nil, fd)
	case "BufRegister":
		err = f.BufRegister(nil, 0x1000000, 65536)
	case "BufDeregister":
		err = f.BufDeregister(nil, 0x1000000)
	case "Read":
		v, err = f.Read(nil, 0, 0x1000000, 4096, 0, 0)
	case "DriverClose":
		err = f.DriverClose(nil)
	}
	report(what, v, err)
	if err == nil && (what == "Read" || what == "BufRegister" || what == "DriverOpen strict") {
		t.Errorf("%s succeeded without a GPU", what)
	}
}

// decoded holds that an error of the library has a number and a name.
func decoded(t *testing.T, name string, err error) {
	t.Helper()
	var e *driver.Error
	if errors.Is(err, driver.ErrCounters) && !errors.As(err, &e) {
		return
	}
	if !errors.As(err, &e) || e.Code == 0 || e.Name == "" {
		t.Errorf("%s: not decoded: %#v", name, err)
	}
}
