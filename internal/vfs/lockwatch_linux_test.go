package vfs

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// lockLog is a watcher that keeps what it was told.
type lockLog struct {
	mu          sync.Mutex
	held        []int
	taken, over int
}

func watchLocks(t *testing.T) *lockLog {
	l := &lockLog{}
	WatchLocks(&LockWatcher{
		Taken: func(fd int) {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.held = append(l.held, fd)
			l.taken++
		},
		Given: func(fd int) {
			l.mu.Lock()
			defer l.mu.Unlock()
			var st unix.Stat_t
			if err := unix.Fstat(fd, &st); err != unix.EBADF {
				t.Errorf("descriptor %d is still open: %v", fd, err)
			}
			i := slices.Index(l.held, fd)
			if i < 0 {
				t.Errorf("descriptor %d was never taken", fd)
				return
			}
			l.held = slices.Delete(l.held, i, i+1)
			l.over++
		},
	})
	t.Cleanup(func() { WatchLocks(nil) })
	return l
}

func (l *lockLog) want(t *testing.T, held, taken int) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) != held || l.taken != taken || l.over != taken-held {
		t.Errorf("%d held, %d taken, %d over; want %d held of %d", len(l.held), l.taken, l.over, held, taken)
	}
}

// TestLockWatcher: it is told of every lock once before it is there and once
// after its descriptor went, also where the lock was not to be had.
func TestLockWatcher(t *testing.T) {
	dir := t.TempDir()
	a, err := OpenOS(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	log := watchLocks(t)
	file, err := a.Lock("LOCK")
	if err != nil {
		t.Fatal(err)
	}
	root, err := a.Lock(".")
	if err != nil {
		t.Fatal(err)
	}
	log.want(t, 2, 2)
	if fd := int(file.Fd()); !slices.Contains(log.held, fd) {
		t.Errorf("descriptor %d is not among %v", fd, log.held)
	}
	for _, name := range []string{"LOCK", "."} {
		if _, err := a.Lock(name); !errors.Is(err, ErrLocked) {
			t.Errorf("second lock of %s: %v", name, err)
		}
	}
	log.want(t, 2, 4)
	plain, err := a.Open("other", Create|ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(plain.Close(), file.Close(), root.Close()); err != nil {
		t.Error(err)
	}
	log.want(t, 0, 4)
	_ = file.Close() // twice is nothing
	log.want(t, 0, 4)
	again, err := a.Lock("LOCK")
	if err != nil {
		t.Fatal(err)
	}
	WatchLocks(nil) // who was told of the beginning is told of the end
	if err := again.Close(); err != nil {
		t.Error(err)
	}
	log.want(t, 0, 5)
}
