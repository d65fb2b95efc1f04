//go:build unix

package daemon

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestUnixSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := listenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if i, err := os.Lstat(path); err != nil || i.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v", i.Mode(), err)
	}
	if l.Addr().String() != path {
		t.Errorf("the address is %s", l.Addr())
	}
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	if _, err := listenUnix(path); !errors.Is(err, ErrSocketInUse) {
		t.Errorf("a second server: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	_ = l.Close()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the close the socket is there: %v", err)
	}
	again, err := listenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	_ = again.Close()
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 || left[0].Name() != "s.lock" {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestUnixSocketOfADeadServerIsReplaced, and nothing else is.
func TestUnixSocketOfADeadServerIsReplaced(t *testing.T) {
	dir := t.TempDir()
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, "dead"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	_ = dead.Close()
	l, err := listenUnix(filepath.Join(dir, "dead"))
	if err != nil {
		t.Fatal(err)
	}
	if c, err := net.Dial("unix", filepath.Join(dir, "dead")); err != nil {
		t.Error(err)
	} else {
		_ = c.Close()
	}
	_ = l.Close()

	// A server that knows nothing of the lock.
	live, err := net.Listen("unix", filepath.Join(dir, "live"))
	if err != nil {
		t.Fatal(err)
	}
	defer live.Close()
	if _, err := listenUnix(filepath.Join(dir, "live")); !errors.Is(err, ErrSocketInUse) || !strings.Contains(err.Error(), "somebody answers") {
		t.Errorf("a live socket: %v", err)
	}
	if c, err := net.Dial("unix", filepath.Join(dir, "live")); err != nil {
		t.Errorf("the live server was harmed: %v", err)
	} else {
		_ = c.Close()
	}

	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(file); err == nil || !strings.Contains(err.Error(), "is no socket") {
		t.Errorf("a file: %v", err)
	}
	if text, err := os.ReadFile(file); string(text) != "dear" {
		t.Errorf("the file was harmed: %q, %v", text, err)
	}
	if _, err := listenUnix(filepath.Join(dir, "none", "s")); err == nil {
		t.Error("a directory that is not there")
	}
}

// TestUnixSocketOfAnotherIsNotRemoved: who closes removes only its own.
func TestUnixSocketOfAnotherIsNotRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := listenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	_ = l.Close()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the socket of another was removed: %v", err)
	}
}
