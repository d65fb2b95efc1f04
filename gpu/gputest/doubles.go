package gputest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/sealstone/sealstone/gpu/driver"
)

// Doubles are one copy of the three libraries, with state of its own.
type Doubles struct {
	CUDAPath   string
	CuFilePath string
	NVMLPath   string

	t       testing.TB
	l       loaded
	log     string
	specs   []string
	lenient bool
}

// Option changes what Build makes.
type Option func(*building)

type building struct {
	without []string
	lenient bool
}

// Without leaves functions out of the libraries, as an older version lacks them.
func Without(functions ...string) Option {
	return func(b *building) { b.without = append(b.without, functions...) }
}

// Lenient does not fail the test for violations when it ends: it looks at them
// itself.
func Lenient() Option { return func(b *building) { b.lenient = true } }

// Build makes a fresh copy of the doubles for a test. The test fails when it ends
// if a rule was broken; leaks are [Doubles.Check]'s.
func Build(t testing.TB, options ...Option) *Doubles {
	t.Helper()
	var b building
	for _, o := range options {
		o(&b)
	}
	dir := t.TempDir()
	d := &Doubles{t: t, log: filepath.Join(dir, "log"), lenient: b.lenient,
		CUDAPath: filepath.Join(dir, "libcuda.so.1"), CuFilePath: filepath.Join(dir, "libcufile.so.0"),
		NVMLPath: filepath.Join(dir, "libnvidia-ml.so.1")}
	if !available {
		t.Skip("the doubles of the GPU libraries need cgo and Linux")
	}
	if err := Compile(dir, b.without...); err != nil {
		t.Fatal(err)
	}
	d.l = load(t, dir)
	t.Cleanup(func() {
		if !d.lenient {
			d.fail(t, d.Violations(), "violation")
		}
		d.ask("close")
	})
	return d
}

// Options are those that make the driver load these doubles.
func (d *Doubles) Options() driver.Options {
	return driver.Options{CUDAPath: d.CUDAPath, CuFilePath: d.CuFilePath}
}

// Open opens the driver on them.
func (d *Doubles) Open(t testing.TB) *driver.Driver {
	t.Helper()
	dr, err := driver.Open(d.Options())
	if err != nil {
		t.Fatal(err)
	}
	return dr
}

// Set makes a call fail. Faults of one call add up; where several would fire, the
// one set first does.
func (d *Doubles) Set(call string, f Fault) { d.t.Helper(); d.Configure(f.spec(call)) }

// Configure sets faults and settings given as text; see the package.
func (d *Doubles) Configure(spec string) {
	d.t.Helper()
	d.ask("set " + spec)
	d.specs = append(d.specs, spec)
}

// Clear removes all faults. Settings, counts and violations stay.
func (d *Doubles) Clear() {
	d.t.Helper()
	d.ask("clear")
	d.specs = nil
}

// Reset removes faults, settings, counts, guards and violations, and releases
// what hangs. Memory, streams and handles stay, and a lost device stays lost.
func (d *Doubles) Reset() {
	d.t.Helper()
	d.ask("reset")
	d.specs = nil
}

// Env is the environment that gives a child process, which loads these paths, the
// same faults and settings. What it breaks is found by Violations.
func (d *Doubles) Env() []string {
	return []string{"SEALSTONE_FAKE_GPU=" + strings.Join(d.specs, ","), "SEALSTONE_FAKE_GPU_LOG=" + d.log}
}

// Release lets everything that hangs or is stuck go on.
func (d *Doubles) Release() { d.t.Helper(); d.ask("release") }

// Hanging returns how many calls hang now.
func (d *Doubles) Hanging() int {
	d.t.Helper()
	var n int
	if _, err := fmt.Sscan(d.ask("hanging"), &n); err != nil {
		d.t.Fatal(err)
	}
	return n
}

// WaitHanging waits until n calls hang.
func (d *Doubles) WaitHanging(n int) {
	d.t.Helper()
	for end := time.Now().Add(time.Minute); d.Hanging() < n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			d.t.Fatalf("gputest: %d calls hang, want %d", d.Hanging(), n)
		}
	}
}

// Calls returns how often a function was called in this process.
func (d *Doubles) Calls(call string) int { d.t.Helper(); calls, _ := d.count(call); return calls }

// Fired returns how often a fault of the function fired in this process.
func (d *Doubles) Fired(call string) int { d.t.Helper(); _, fired := d.count(call); return fired }

func (d *Doubles) count(call string) (calls, fired int) {
	d.t.Helper()
	for _, line := range lines(d.ask("counts")) {
		var name string
		var c, f int
		if _, err := fmt.Sscan(line, &name, &c, &f); err != nil {
			d.t.Fatalf("gputest: %q: %v", line, err)
		}
		if name == call {
			return c, f
		}
	}
	return 0, 0
}

// Bytes returns a copy of device memory as it is now, whatever streams are doing.
func (d *Doubles) Bytes(p driver.DevicePtr, n int64) []byte {
	d.t.Helper()
	b := make([]byte, n)
	if !d.l.peek(p, b) {
		d.t.Fatalf("gputest: %d bytes at %#x are not allocated", n, uint64(p))
	}
	return b
}

// Write writes device memory, past all streams.
func (d *Doubles) Write(p driver.DevicePtr, b []byte) {
	d.t.Helper()
	if !d.l.poke(p, b) {
		d.t.Fatalf("gputest: %d bytes at %#x are not allocated", len(b), uint64(p))
	}
}

// Guard makes any touch of n bytes of device memory by the doubles a violation:
// the operation on them is complete. The function that it returns ends that.
func (d *Doubles) Guard(p driver.DevicePtr, n int64) func() {
	d.l.guard(uint64(p), n, true)
	return func() { d.l.guard(uint64(p), n, false) }
}

// GuardHost is Guard for host memory, which must not be Go's.
func (d *Doubles) GuardHost(p unsafe.Pointer, n int64) func() {
	at := uint64(uintptr(p))
	d.l.guard(at, n, true)
	return func() { d.l.guard(at, n, false) }
}

// Host makes the calling system thread one of a host application that has a
// device's context current, runs f, and says whether f left that as it was. The
// caller has locked the thread.
func (d *Doubles) Host(device int, f func()) (kept bool) {
	d.t.Helper()
	if !d.l.enter(device) {
		d.t.Fatalf("gputest: device %d has no context", device)
	}
	f()
	kept = d.l.same(device)
	if !d.l.leave(device) {
		d.t.Fatalf("gputest: the context of device %d cannot be left", device)
	}
	return kept
}

// NoContext says whether the calling system thread has no context current.
func (d *Doubles) NoContext() bool { return d.l.same(-1) }

// Violations returns what callers did and must not, here and in child processes.
func (d *Doubles) Violations() []string {
	d.t.Helper()
	found := lines(d.ask("violations"))
	b, err := os.ReadFile(d.log)
	if err != nil && !os.IsNotExist(err) {
		d.t.Fatal(err)
	}
	for _, line := range lines(string(b)) {
		if v, ok := strings.CutPrefix(line, "violation "); ok {
			found = append(found, "in a child process: "+v)
		}
	}
	return found
}

// Leaks returns what is outstanding: memory, registrations, streams, events,
// modules, handles, contexts. What a lost context holds does not count.
func (d *Doubles) Leaks() []string { d.t.Helper(); return lines(d.ask("leaks")) }

// Idle waits until no stream has work left and no late write is to come.
func (d *Doubles) Idle() { d.t.Helper(); d.ask("idle") }

// Check waits until the doubles are idle and fails the test for violations and
// leaks.
func (d *Doubles) Check(t testing.TB) {
	t.Helper()
	d.Idle()
	d.fail(t, d.Violations(), "violation")
	d.fail(t, d.Leaks(), "leak")
	d.lenient = true // said once
}

func (d *Doubles) fail(t testing.TB, what []string, kind string) {
	t.Helper()
	for _, w := range what {
		t.Errorf("GPU double: %s: %s", kind, w)
	}
}

// ask runs a command that the doubles must know.
func (d *Doubles) ask(command string) string {
	d.t.Helper()
	reply, err := d.l.command(command)
	if err != nil {
		d.t.Fatalf("gputest: %v", err)
	}
	return reply
}

func lines(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r == '\n' })
}
