package server

import (
	"bufio"
	"context"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// hang ends a test that would wait for ever; nothing depends on it else.
const hang = 30 * time.Second

// rig is a server over a store in a temporary directory.
type rig struct {
	t     *testing.T
	dir   string
	o     Options
	eo    engine.Options
	store *engine.Store
	s     *Server
	addr  string
	done  chan error
}

func newRig(t *testing.T, o Options) *rig { return newRigOf(t, o, engine.Options{}) }

func newRigOf(t *testing.T, o Options, eo engine.Options) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), done: make(chan error, 1)}
	if eo.CapacityBytes == 0 {
		eo.CapacityBytes = 256 << 20
	}
	if eo.MaxBlockBytes == 0 {
		eo.MaxBlockBytes = 4 << 20
	}
	eo.SegmentBytes, eo.Path = 8<<20, engine.PathPread // the probe of one path takes less time
	if o.ValueBytesMax == 0 {
		o.ValueBytesMax = 4 << 20
	}
	r.o, r.eo = o, eo
	r.start()
	t.Cleanup(r.stop)
	return r
}

func (r *rig) start() {
	r.t.Helper()
	var err error
	if r.store, err = engine.Open(r.dir, r.eo); err != nil {
		r.t.Fatal(err)
	}
	if r.s, err = New(r.store, r.o); err != nil {
		r.t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.addr = l.Addr().String()
	s := r.s
	go func() { r.done <- s.Serve(l) }()
}

// reopen is a restart of the server, in order.
func (r *rig) reopen() {
	r.t.Helper()
	r.stop()
	r.start()
}

func (r *rig) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	if _, err := r.s.Shutdown(ctx); err == nil {
		if err := <-r.done; err != ErrClosed {
			r.t.Errorf("Serve: %v", err)
		}
	}
	if err := r.store.Close(ctx); err != nil {
		r.t.Errorf("close: %v", err)
	}
}

// peer is a client of few words.
type peer struct {
	t  *testing.T
	c  net.Conn
	in *bufio.Reader
}

func (r *rig) dial() *peer {
	r.t.Helper()
	c, err := net.Dial("tcp", r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	return r.peer(c)
}

// dialUnix connects over a Unix socket of its own.
func (r *rig) dialUnix() *peer {
	r.t.Helper()
	l, err := net.Listen("unix", filepath.Join(r.t.TempDir(), "s"))
	if err != nil {
		r.t.Fatal(err)
	}
	go func() { _ = r.s.Serve(l) }()
	c, err := net.Dial("unix", l.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	return r.peer(c)
}

func (r *rig) peer(c net.Conn) *peer {
	_ = c.SetDeadline(time.Now().Add(hang))
	r.t.Cleanup(func() { c.Close() })
	return &peer{r.t, c, bufio.NewReader(c)}
}

// eventually waits for what another goroutine is about to do.
func (r *rig) eventually(done func() bool) {
	r.t.Helper()
	for end := time.Now().Add(hang); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatal("it does not happen")
		}
	}
}
