package client

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/tools/internal/server"
)

// hangTimeout only catches a test that hangs; nothing is measured with it.
const hangTimeout = 60 * time.Second

// rig is a server over a store, on a Unix socket and a TCP one.
type rig struct {
	store  *engine.Store
	server *server.Server
	unix   string // addresses
	tcp    string
}

func testStore(t testing.TB) *engine.Store {
	t.Helper()
	s, err := engine.Open(t.TempDir(), engine.Options{
		CapacityBytes: 512 << 20, FreeFloorBytes: 1, MaxBlockBytes: 4 << 20, SegmentBytes: 16 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func newRig(t testing.TB, o server.Options) *rig {
	t.Helper()
	r := &rig{store: testStore(t)}
	path := filepath.Join(socketDir(t), "s")
	r.unix = "unix:" + path
	if o.ValueBytesMax == 0 {
		o.ValueBytesMax = 4 << 20
	}
	var err error
	if r.server, err = server.New(r.store, o); err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 2)
	serve := func(network, addr string) string {
		l, err := net.Listen(network, addr)
		if err != nil {
			t.Fatal(err)
		}
		go func() { served <- r.server.Serve(l) }()
		return l.Addr().String()
	}
	serve("unix", path)
	r.tcp = serve("tcp", "127.0.0.1:0")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
		defer cancel()
		if _, err := r.server.Shutdown(ctx); err != nil {
			t.Errorf("shutdown: %v", err)
		}
		for range cap(served) {
			if err := <-served; !errors.Is(err, server.ErrClosed) {
				t.Errorf("serve: %v", err)
			}
		}
	})
	return r
}

// socketDir is a folder with a short name: a socket's path has little room.
func socketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ss")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func mustDial(t testing.TB, address string, o Options) *Client {
	t.Helper()
	c, err := Dial(context.Background(), address, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(context.Background()); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return c
}

func testLayout() layout.Layout {
	l := layout.Opaque("client-test")
	l.Planes = []layout.Plane{{Name: "k"}, {Name: "v"}}
	return l
}

func mustSpace(t testing.TB, c *Client) *Namespace {
	t.Helper()
	n, err := c.Namespace(context.Background(), testLayout(), "", engine.NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func mustRegion(t testing.TB, c *Client, sizeBytes int64) *Region {
	t.Helper()
	r, err := c.NewRegion(sizeBytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Release)
	return r
}

func hashOf(id int) []byte {
	h := make([]byte, 32)
	for i := range h {
		h[i] = byte(id>>(8*(i%4))) ^ byte(i*37)
	}
	return h
}

// contentOf makes bytes that no other block has.
func contentOf(id, size int) []byte {
	p := make([]byte, size)
	x := uint64(id+1) * 0x9e3779b97f4a7c15
	for i := range p {
		if i%8 == 0 {
			x ^= x << 13
			x ^= x >> 7
			x ^= x << 17
		}
		p[i] = byte(x >> (8 * (i % 8)))
	}
	return p
}

// blockIn is a block of two planes whose bytes lie in p.
func blockIn(id int, p []byte) engine.PutBlock {
	cut := len(p) / 8192 * 4096
	if cut == 0 {
		cut = 1
	}
	return engine.PutBlock{Hash: hashOf(id), Planes: []engine.PlaneData{
		{Name: "k", Spans: [][]byte{p[:cut:cut]}}, {Name: "v", Spans: [][]byte{p[cut:]}},
	}}
}

// wantedIn asks for such a block in p.
func wantedIn(id int, p []byte) engine.GetBlock {
	b := blockIn(id, p)
	out := engine.GetBlock{Hash: b.Hash}
	for _, pl := range b.Planes {
		out.Parts = append(out.Parts, engine.Part{Plane: pl.Name, Spans: pl.Spans})
	}
	return out
}

func mustPut(t testing.TB, n *Namespace, blocks ...engine.PutBlock) {
	t.Helper()
	for i, r := range n.Put(context.Background(), blocks, engine.PutOptions{}) {
		if r.Status != engine.StatusOK {
			t.Fatalf("put %d: %v %v", i, r.Status, r.Err)
		}
	}
}
