//go:build unix

package server

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// TestUnixShutdownWhileIdle: connections of a Unix socket wait for commands,
// and were served before, when the server ends; some have sent half a frame.
func TestUnixShutdownWhileIdle(t *testing.T) {
	r := newRig(t, Options{})
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- r.s.Serve(l) }()
	for range 8 {
		c, err := net.Dial("unix", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		r.peer(c).want(status("PONG"), "PING")
	}
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	if left, err := r.s.Shutdown(ctx); err != nil {
		t.Errorf("%+v, %v", left, err)
	}
	if err := <-served; !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
	<-r.done
	if n := r.s.count.panics.Load(); n > 0 {
		t.Errorf("%d panics", n)
	}
}

// TestFileSourceDeadline: a read that a deadline ends has read nothing, and
// not less.
func TestFileSourceDeadline(t *testing.T) {
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var in atomic.Int64
	src := newSource(c, &in)
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	if n, err := src.Read(make([]byte, 10)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) || in.Load() != 0 {
		t.Errorf("read %d, %v; %d bytes counted", n, err, in.Load())
	}
}
