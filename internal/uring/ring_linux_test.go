package uring

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/sealstone/sealstone/internal/aligned"
)

// eachMode runs f on a ring of every set of setup flags that the kernel
// grants.
func eachMode(t *testing.T, entries int, f func(t *testing.T, r *Ring)) {
	all := wishes
	t.Cleanup(func() { wishes = all })
	seen := map[string]bool{}
	for i := range all {
		wishes = all[i:]
		r := newRing(t, entries)
		if seen[r.Modes()] {
			continue
		}
		seen[r.Modes()] = true
		t.Run(r.Modes(), func(t *testing.T) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			f(t, newRing(t, entries))
		})
	}
}

// newRing makes a ring for the goroutine of the test, which must have nothing
// in flight at its end.
func newRing(t *testing.T, entries int) *Ring {
	t.Helper()
	runtime.LockOSThread()
	r, err := New(entries)
	if errors.Is(err, ErrUnsupported) {
		t.Skipf("no io_uring here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		runtime.UnlockOSThread()
	})
	return r
}

func push(t *testing.T, r *Ring, e SQE) {
	t.Helper()
	if !r.Push(e) {
		t.Fatal("no room for an entry")
	}
}

// reap submits and takes n completions.
func reap(t *testing.T, r *Ring, n int) []CQE {
	t.Helper()
	var out []CQE
	for len(out) < n {
		if err := r.Enter(1, 0); err != nil {
			t.Fatal(err)
		}
		for c, ok := r.Next(); ok; c, ok = r.Next() {
			out = append(out, c)
		}
	}
	return out
}

// one runs a single entry to its end.
func one(t *testing.T, r *Ring, e SQE) int32 {
	t.Helper()
	push(t, r, e.WithUserData(42))
	c := reap(t, r, 1)
	if len(c) != 1 || c[0].UserData != 42 {
		t.Fatalf("completions %+v, want one of 42", c)
	}
	return c[0].Res
}

func offHeap(t testing.TB, n int) []byte {
	t.Helper()
	b, err := aligned.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Free)
	return b.Bytes()
}

// iovecs lays an iovec array outside the Go heap.
func iovecs(t *testing.T, bufs ...[]byte) []Iovec {
	out := Iovecs(offHeap(t, len(bufs)*IovecBytes))
	for i, b := range bufs {
		out[i] = MakeIovec(b)
	}
	return out
}

// tempFile makes a file with n random bytes.
func tempFile(t testing.TB, n int) (*os.File, []byte) {
	t.Helper()
	p := make([]byte, n)
	var seed [32]byte
	_, _ = rand.NewChaCha8(seed).Read(p)
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, p, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f, p
}

func TestLayout(t *testing.T) {
	if n := unsafe.Sizeof(SQE{}); n != 64 {
		t.Errorf("an SQE has %d bytes", n)
	}
	if n := unsafe.Sizeof(CQE{}); n != 16 {
		t.Errorf("a CQE has %d bytes", n)
	}
	if n := unsafe.Sizeof(params{}); n != 120 {
		t.Errorf("params has %d bytes", n)
	}
	if n := unsafe.Sizeof(Iovec{}); n != unsafe.Sizeof(unix.Iovec{}) {
		t.Errorf("an Iovec has %d bytes", n)
	}
	if n := unsafe.Sizeof(waitArg{}); n != 24 {
		t.Errorf("waitArg has %d bytes", n)
	}
	if n := unsafe.Sizeof(probe{}); n != 16+8*probeOpsMax {
		t.Errorf("probe has %d bytes", n)
	}
}

func TestNop(t *testing.T) {
	eachMode(t, 8, func(t *testing.T, r *Ring) {
		if r.Entries() != 8 {
			t.Errorf("%d entries", r.Entries())
		}
		// More rounds than entries: the queues wrap around.
		for round := range uint64(50) {
			for i := range uint64(8) {
				push(t, r, Nop().WithUserData(round<<8|i))
			}
			if r.Pending() != 8 || r.InFlight() != 0 {
				t.Fatalf("%d pending, %d in flight before they are submitted", r.Pending(), r.InFlight())
			}
			if r.Push(Nop()) {
				t.Fatal("a ninth entry found room")
			}
			var got []uint64
			for _, c := range reap(t, r, 8) {
				if c.Res != 0 {
					t.Fatalf("result %d", c.Res)
				}
				got = append(got, c.UserData)
			}
			slices.Sort(got)
			for i, v := range got {
				if v != round<<8|uint64(i) {
					t.Fatalf("round %d: completions %v", round, got)
				}
			}
			if r.Pending() != 0 || r.InFlight() != 0 {
				t.Fatalf("%d pending, %d in flight in the end", r.Pending(), r.InFlight())
			}
		}
	})
}

// What was submitted and not taken yet is bounded by the completions that fit.
func TestRequestsAreBoundByCompletionQueue(t *testing.T) {
	eachMode(t, 4, func(t *testing.T, r *Ring) {
		n := 0
		for r.Push(Nop()) {
			n++
			if err := r.Enter(0, 0); err != nil {
				t.Fatal(err)
			}
			if n > 100 {
				t.Fatal("no bound on what is in flight")
			}
		}
		if n != len(r.cqes) {
			t.Errorf("%d requests in flight, the completion queue holds %d", n, len(r.cqes))
		}
		reap(t, r, n)
	})
}

// A completion for which the queue has no room is kept by the kernel.
func TestOverflowLosesNothing(t *testing.T) {
	eachMode(t, 4, func(t *testing.T, r *Ring) {
		r.inFlightMax = 1000
		const n = 100
		for i := range uint64(n) {
			push(t, r, Nop().WithUserData(i))
			// EBUSY: an old kernel wants room first; the entry stays.
			if err := r.Enter(0, 0); err != nil && !errors.Is(err, unix.EBUSY) {
				t.Fatal(err)
			}
			if r.Pending() > 0 {
				t.Fatalf("entry %d was not taken", i)
			}
		}
		if r.sqFlags.Load()&sqCQOverflow == 0 {
			t.Fatal("the queue did not overflow")
		}
		for i := range uint64(n) {
			c, ok := r.Next()
			if !ok || c.UserData != i {
				t.Fatalf("completion %d is %+v, %v", i, c, ok)
			}
		}
		if c, ok := r.Next(); ok {
			t.Errorf("one completion too many: %+v", c)
		}
	})
}

func TestReadAndWrite(t *testing.T) {
	eachMode(t, 8, func(t *testing.T, r *Ring) {
		f, content := tempFile(t, 100_000)
		fd := int(f.Fd())
		p := offHeap(t, 10_000)
		if n := one(t, r, Read(fd, p, 777)); n != 10_000 || !bytes.Equal(p, content[777:10_777]) {
			t.Fatalf("read: %d, or wrong bytes", n)
		}
		if n := one(t, r, Read(fd, p, 99_000)); n != 1000 || !bytes.Equal(p[:1000], content[99_000:]) {
			t.Fatalf("read at the end: %d, or wrong bytes", n)
		}
		if n := one(t, r, Read(fd, p, 200_000)); n != 0 {
			t.Fatalf("read past the end: %d", n)
		}
		a, b, c := offHeap(t, 1), offHeap(t, 4000), offHeap(t, 5999)
		if n := one(t, r, Readv(fd, iovecs(t, a, b, c), 3)); n != 10_000 {
			t.Fatalf("readv: %d", n)
		}
		if got := slices.Concat(a, b, c); !bytes.Equal(got, content[3:10_003]) {
			t.Fatal("readv: wrong bytes")
		}
		if n := one(t, r, Write(fd, p[:500], 50_000)); n != 500 {
			t.Fatalf("write: %d", n)
		}
		copy(content[50_000:], p[:500])
		if n := one(t, r, Writev(fd, iovecs(t, c, a), 60_001)); n != 6000 {
			t.Fatalf("writev: %d", n)
		}
		copy(content[60_001:], append(bytes.Clone(c), a...))
		if n := one(t, r, Datasync(fd)); n != 0 {
			t.Fatalf("datasync: %d", n)
		}
		got, err := os.ReadFile(f.Name())
		if err != nil || !bytes.Equal(got, content) {
			t.Fatalf("the file has other bytes (%v)", err)
		}
	})
}

// Many reads at once, taken in whatever order they end.
func TestManyReads(t *testing.T) {
	eachMode(t, 64, func(t *testing.T, r *Ring) {
		f, content := tempFile(t, 64*4096)
		mem := offHeap(t, len(content))
		for i := range 64 {
			push(t, r, Read(int(f.Fd()), mem[i*4096:][:4096], int64(i)*4096).WithUserData(uint64(i)))
		}
		seen := map[uint64]bool{}
		for _, c := range reap(t, r, 64) {
			if c.Res != 4096 || seen[c.UserData] {
				t.Errorf("completion %+v, seen before: %v", c, seen[c.UserData])
			}
			seen[c.UserData] = true
		}
		if !bytes.Equal(mem, content) {
			t.Error("wrong bytes")
		}
	})
}

func TestErrors(t *testing.T) {
	eachMode(t, 8, func(t *testing.T, r *Ring) {
		f, _ := tempFile(t, 4096)
		p := offHeap(t, 4096)
		closed := int(f.Fd())
		_ = f.Close()
		for name, tc := range map[string]struct {
			e    SQE
			want unix.Errno
		}{
			"closed descriptor": {Read(closed, p, 0), unix.EBADF},
			"no descriptor":     {Read(-1, p, 0), unix.EBADF},
			"no file table":     {Read(0, p, 0).WithFixedFile(0), unix.EBADF},
			"no buffer table":   {ReadFixed(1, p, 0, 0), unix.EFAULT},
			"nothing to cancel": {Cancel(12345), unix.ENOENT},
			"unknown operation": {SQE{op: 255}, unix.EINVAL},
		} {
			res := one(t, r, tc.e)
			if res != -int32(tc.want) {
				t.Errorf("%s: result %d, want %v", name, res, -int32(tc.want))
			}
		}
		// A bad entry does not hold up those behind it.
		push(t, r, SQE{op: 255}.WithUserData(1))
		push(t, r, Nop().WithUserData(2))
		push(t, r, Read(-1, p, 0).WithUserData(3))
		push(t, r, Nop().WithUserData(4))
		if got := len(reap(t, r, 4)); got != 4 {
			t.Errorf("%d completions of 4", got)
		}
	})
}

func TestTimeout(t *testing.T) {
	eachMode(t, 8, func(t *testing.T, r *Ring) {
		if err := r.Enter(1, time.Millisecond); !errors.Is(err, ErrTimeout) && !errors.Is(err, ErrUnsupported) {
			t.Errorf("nothing in flight: %v, want %v", err, ErrTimeout)
		}
		push(t, r, Nop())
		if err := r.Enter(1, time.Hour); err != nil && !errors.Is(err, ErrUnsupported) {
			t.Error(err)
		}
		reap(t, r, 1)
	})
}
