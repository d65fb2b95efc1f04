package gpu

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/gputest"
)

// bench is a Device on the doubles of the real libraries, with a clock that
// stands still.
type bench struct {
	t      *testing.T
	x      *gputest.Doubles
	d      *Device
	c      *driver.Context // the caller's, for its own memory
	clock  *stillClock
	events eventLog
	dir    string
	memory []driver.DevicePtr
}

// noKernel keeps the verify kernel from being proven.
const noKernel = "cuModuleLoadDataEx=218"

// newBench opens a device on the doubles. Faults in specs are there from the
// beginning.
func newBench(t *testing.T, change func(*Options), specs ...string) *bench {
	t.Helper()
	b := &bench{t: t, x: gputest.Build(t), clock: newStillClock(), dir: directDir(t)}
	for _, s := range specs {
		b.x.Configure(s)
	}
	o := Options{PinnedBytesMax: 16 << 20, PinnedChunkBytes: 1 << 20, StagingBytesMax: 8 << 20, LandingBytesMax: 2 << 20,
		Clock: b.clock, Events: b.events.add, CuFileLogDir: t.TempDir()}
	if change != nil {
		change(&o)
	}
	d := b.x.Open(t)
	var err error
	if b.d, err = OpenDevice(d, 0, o); err != nil {
		t.Fatal(err)
	}
	if b.c, err = d.RetainPrimary(0); err != nil {
		t.Fatal(err)
	}
	return b
}

// directDir is a directory whose files can be opened with O_DIRECT.
func directDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	fd, err := unix.Open(filepath.Join(dir, "probe"), unix.O_RDWR|unix.O_CREAT|unix.O_DIRECT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		t.Skipf("the temporary directory takes no direct I/O: %v", err)
	}
	_ = unix.Close(fd)
	return dir
}

// span is device memory of the caller, filled with what no block has.
func (b *bench) span(n int64) Span {
	b.t.Helper()
	p, err := b.c.MemAlloc(n + 2*guardBytes)
	if err != nil {
		b.t.Fatal(err)
	}
	b.memory = append(b.memory, p)
	b.x.Write(p, bytes.Repeat([]byte{0xdd}, int(n+2*guardBytes)))
	return Span{Ptr: p + guardBytes, LengthBytes: n}
}

// holds says what a span holds, of which data are the right bytes.
func (b *bench) holds(s Span, data []byte) string {
	whole := b.x.Bytes(s.Ptr-guardBytes, s.LengthBytes+2*guardBytes)
	got := whole[guardBytes:][:s.LengthBytes]
	switch {
	case !untouched(whole[:guardBytes]) || !untouched(whole[guardBytes+s.LengthBytes:]):
		return "a byte beside the span was written"
	case bytes.Equal(got, data):
		return "whole"
	case untouched(got):
		return "untouched"
	case len(bytes.Trim(got, "\x00")) == 0:
		return "zeroed"
	}
	return "wrong bytes"
}

// allow takes a verdict that lets direct reads of the directory pass.
func (b *bench) allow() *Route {
	b.t.Helper()
	r := b.d.AllowDirect(b.dir, Verdict{State: VerdictProven, Dir: b.dir, Key: VerdictKey{GPU: b.d.UUID(), Device: "8:1"}})
	if st := r.Status(); st.State != RouteProven {
		b.t.Fatalf("the route is %+v", st)
	}
	return r
}

// file makes a file of the directory and opens it as a store does.
func (b *bench) file(name string, data []byte) (int, FileID) {
	b.t.Helper()
	path := filepath.Join(b.dir, name)
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = unix.Close(fd) })
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		b.t.Fatal(err)
	}
	return fd, FileID{Dev: uint64(st.Dev), Ino: st.Ino}
}

// free gives the caller's memory and context back.
func (b *bench) free() {
	b.t.Helper()
	for _, p := range b.memory {
		if err := b.c.MemFree(p); err != nil && b.d.lostErr() == nil {
			b.t.Error(err)
		}
	}
	b.memory = nil
	if err := b.c.Release(); err != nil && b.d.lostErr() == nil {
		b.t.Error(err)
	}
}

// close closes the device; nothing is left, and no rule was broken.
func (b *bench) close() {
	b.t.Helper()
	b.free()
	if err := b.d.Close(context.Background()); err != nil {
		b.t.Errorf("Close: %v", err)
	}
	b.x.Check(b.t)
}

// advanceUntil moves the clock until something is done.
func (b *bench) advanceUntil(done <-chan struct{}) {
	b.t.Helper()
	(&rig{t: b.t, d: b.d, clock: b.clock}).advanceUntil(done)
}
