//go:build unix

package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrSocketInUse: another server answers at the path of the socket.
var ErrSocketInUse = errors.New("the socket is in use")

// dialTimeout bounds the look whether somebody answers at a socket. One whose
// queue is full does not answer, and is alive.
const dialTimeout = time.Second

// unixListener removes its socket when it is closed, if it is still its own.
type unixListener struct {
	*net.UnixListener
	path string
	made os.FileInfo
	lock *os.File
	once sync.Once
}

// listenUnix listens at path, which this user alone may connect to. A socket
// whose owner is dead is replaced; anything else at the path is left alone.
//
// The socket is made under another name and renamed, so that nobody meets one
// whose mode is not set yet, and replaced in one step. Two servers that begin
// together are kept apart by a lock on PATH.lock, which stays.
func listenUnix(path string) (net.Listener, error) {
	lock, err := lockSocket(path)
	if err != nil {
		return nil, err
	}
	l, err := listenLocked(path)
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	l.lock = lock
	return l, nil
}

func lockSocket(path string) (*os.File, error) {
	f, err := os.OpenFile(path+".lock", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the lock of the socket: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: another server holds %s.lock; stop it, or name another path", ErrSocketInUse, path)
		}
		return nil, fmt.Errorf("lock %s.lock: %w", path, err)
	}
	return f, nil
}

func listenLocked(path string) (*unixListener, error) {
	if err := mayReplace(path); err != nil {
		return nil, err
	}
	// The name stays short: a path of a socket has room for some 100 bytes.
	fresh := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%x", os.Getpid()))
	_ = os.Remove(fresh)
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: fresh, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("listen at the socket %s: %w", path, err)
	}
	l.SetUnlinkOnClose(false)
	made, err := publish(fresh, path)
	if err != nil {
		_ = l.Close()
		_ = os.Remove(fresh)
		return nil, err
	}
	return &unixListener{UnixListener: l, path: path, made: made}, nil
}

func publish(fresh, path string) (os.FileInfo, error) {
	if err := os.Chmod(fresh, 0o600); err != nil {
		return nil, fmt.Errorf("set the mode of the socket %s: %w", path, err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return nil, fmt.Errorf("put the socket in place: %w", err)
	}
	return os.Lstat(path)
}

// mayReplace refuses what is not the socket of a dead server.
func mayReplace(path string) error {
	i, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at the socket: %w", err)
	}
	if i.Mode().Type() != os.ModeSocket {
		return fmt.Errorf("%s is there and is no socket; name another path, or remove it", path)
	}
	c, err := net.DialTimeout("unix", path, dialTimeout)
	switch {
	case err == nil:
		_ = c.Close()
		return fmt.Errorf("%w: somebody answers at %s; stop it, or name another path", ErrSocketInUse, path)
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil
	}
	return fmt.Errorf("%w: %s can not be told to be dead: %w", ErrSocketInUse, path, err)
}

// Close stops listening and removes the socket, unless another server has put
// its own in place.
func (l *unixListener) Close() error {
	err := l.UnixListener.Close()
	l.once.Do(func() {
		if now, statErr := os.Lstat(l.path); statErr == nil && os.SameFile(now, l.made) {
			err = errors.Join(err, os.Remove(l.path))
		}
		err = errors.Join(err, l.lock.Close())
	})
	return err
}

// Addr has the path that clients know.
func (l *unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }
