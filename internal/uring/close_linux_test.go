package uring

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// eventfd makes a descriptor on which a read waits until wake was called.
func eventfd(t *testing.T) (fd int, wake func()) {
	t.Helper()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd, func() {
		if _, err := unix.Write(fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
			t.Error(err)
		}
	}
}

// A wait in the kernel ends when another thread calls Wake; a Wake that comes
// before the wait is not lost.
func TestWaker(t *testing.T) {
	eachMode(t, 8, func(t *testing.T, r *Ring) {
		w, err := NewWaker()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for round := range 100 {
			if round%2 == 1 {
				w.Wake()
				w.Wake()
			}
			push(t, r, w.Entry().WithUserData(7))
			done := make(chan struct{})
			if round%2 == 0 {
				if err := r.Enter(0, 0); err != nil {
					t.Fatal(err)
				}
				if c, ok := r.Next(); ok {
					t.Fatalf("nobody woke it: %+v", c)
				}
				go func() { w.Wake(); close(done) }()
			} else {
				close(done)
			}
			if c := reap(t, r, 1); c[0].UserData != 7 || c[0].Res != counterBytes {
				t.Fatalf("%+v", c[0])
			}
			<-done
		}
	})
}

// A signal ends a wait early, and nothing is lost by it: the runtime sends
// them to its threads whenever it likes.
func TestSignalsEndWaits(t *testing.T) {
	eachMode(t, 8, func(t *testing.T, r *Ring) {
		w, err := NewWaker()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		push(t, r, w.Entry().WithUserData(7))
		thread, early := unix.Gettid(), make(chan struct{})
		stop, stopped := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(stopped)
			for {
				select {
				case <-stop:
					return
				case <-early:
					early = nil
					w.Wake()
				default:
					if err := unix.Tgkill(unix.Getpid(), thread, unix.SIGURG); err != nil {
						t.Error(err)
						return
					}
				}
			}
		}()
		returns := 0
		for {
			if err := r.Enter(1, 0); err != nil {
				t.Fatal(err)
			}
			if c, ok := r.Next(); ok {
				if c.UserData != 7 || c.Res != counterBytes {
					t.Errorf("%+v", c)
				}
				break
			}
			if returns++; returns == 3 {
				close(early)
			}
		}
		close(stop)
		<-stopped
		if returns < 3 {
			t.Errorf("woken after %d early returns, before anybody called Wake", returns)
		}
	})
}

// While the kernel may write to the buffers of a request the ring stays.
func TestCloseWithRequestsInFlight(t *testing.T) {
	eachMode(t, 8, func(t *testing.T, r *Ring) {
		fd, wake := eventfd(t)
		p := offHeap(t, 16)
		push(t, r, Read(fd, p[:8], 0).WithUserData(1))
		if err := r.Enter(0, 0); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := r.Close(); !errors.Is(err, ErrInFlight) {
				t.Fatalf("close: %v, want %v", err, ErrInFlight)
			}
		}
		wake()
		if c := reap(t, r, 1); c[0].Res != 8 {
			t.Fatalf("%+v", c)
		}
		// One that is cancelled, and one that was never submitted.
		push(t, r, Read(fd, p[8:], 0).WithUserData(2))
		push(t, r, Cancel(2).WithUserData(3))
		for _, c := range reap(t, r, 2) {
			if c.UserData == 2 && c.Res != -int32(unix.ECANCELED) && c.Res != -int32(unix.EINTR) {
				t.Errorf("cancelled read: %+v", c)
			}
			if c.UserData == 3 && c.Res != 0 {
				t.Errorf("cancel: %+v", c)
			}
		}
		push(t, r, Nop())
		for range 2 {
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if r.Push(Nop()) || r.Enter(0, 0) == nil || r.Wait(0, 0) == nil || r.InFlight() != 0 || r.Pending() != 0 {
			t.Error("a closed ring does something")
		}
		if _, ok := r.Next(); ok {
			t.Error("a closed ring has completions")
		}
	})
}

// With SINGLE_ISSUER the kernel refuses a second thread; the ring survives.
func TestSecondThread(t *testing.T) {
	r := newRing(t, 8)
	push(t, r, Nop())
	err := make(chan error)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err <- r.Enter(0, 0)
	}()
	got := <-err
	if single := strings.Contains(r.Modes(), "single-issuer"); single != errors.Is(got, unix.EEXIST) {
		t.Errorf("mode %s: enter from another thread: %v", r.Modes(), got)
	}
	reap(t, r, 1)
}

func TestNewRefuses(t *testing.T) {
	for _, n := range []int{-1, 0, MaxEntries + 1} {
		if _, err := New(n); !errors.Is(err, ErrInvalid) {
			t.Errorf("%d entries: %v, want %v", n, err, ErrInvalid)
		}
	}
	for errno, want := range map[unix.Errno]error{
		unix.ENOSYS: ErrUnsupported, unix.EPERM: ErrUnsupported, unix.EACCES: ErrUnsupported,
		unix.ENOMEM: ErrLimit, unix.EMFILE: ErrLimit, unix.ENFILE: ErrLimit, unix.EFAULT: unix.EFAULT,
	} {
		if err := setupError(errno); !errors.Is(err, want) || !errors.Is(err, errno) {
			t.Errorf("%v: %v, want %v and the errno in it", errno, err, want)
		}
	}
}

// setLimit lowers a limit of the process until the end of the test.
func setLimit(t *testing.T, which int, soft uint64) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(0, which, nil, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(0, which, &unix.Rlimit{Cur: min(soft, old.Max), Max: old.Max}, nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Prlimit(0, which, &old, nil); err != nil {
			t.Error(err)
		}
	})
}

func TestDescriptorLimit(t *testing.T) {
	newRing(t, 8) // skips where there is no io_uring
	setLimit(t, unix.RLIMIT_NOFILE, 0)
	if _, err := New(8); !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "NOFILE") {
		t.Errorf("%v, want %v that names the limit", err, ErrLimit)
	}
}

// Buffers above RLIMIT_MEMLOCK are refused with the name of the limit. Root
// is above it, so the thread of the test gives up that right, for good: it
// ends with its goroutine.
func TestMemlockLimit(t *testing.T) {
	newRing(t, 8)
	setLimit(t, unix.RLIMIT_MEMLOCK, 64<<10)
	mem := offHeap(t, 16<<20)
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked
		if err := dropCapability(unix.CAP_IPC_LOCK); err != nil {
			result <- err
			return
		}
		r, err := New(8)
		if err == nil {
			err = r.RegisterBuffers([][]byte{mem})
			if errClose := r.Close(); errClose != nil {
				err = errClose
			}
		}
		result <- err
	}()
	if err := <-result; !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), "MEMLOCK") {
		t.Errorf("%v, want %v that names the limit", err, ErrLimit)
	}
}

// dropCapability takes a capability from the calling thread.
func dropCapability(c int) error {
	header := &unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(header, &data[0]); err != nil {
		return fmt.Errorf("capget: %w", err)
	}
	data[c/32].Effective &^= 1 << (c % 32)
	if err := unix.Capset(header, &data[0]); err != nil {
		return fmt.Errorf("capset: %w", err)
	}
	return nil
}
