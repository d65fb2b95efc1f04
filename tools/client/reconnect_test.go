package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/tools/internal/server"
)

// TestServerAway: while the server is away everything fails at once, and when
// it is back, with other handles, the client goes on by itself.
func TestServerAway(t *testing.T) {
	store := testStore(t)
	path := filepath.Join(socketDir(t), "s")
	start := func() (stop func()) {
		s, err := server.New(store, server.Options{})
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- s.Serve(l) }()
		return func() {
			if _, err := s.Shutdown(context.Background()); err != nil {
				t.Error(err)
			}
			<-served
		}
	}
	stop := start()
	c := mustDial(t, "unix:"+path, Options{})
	// Another namespace, so that after the restart the first handle is of
	// somebody else.
	n, err := c.Namespace(context.Background(), testLayout(), "", engine.NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	region := mustRegion(t, c, 1<<20)
	copy(region.Bytes(), contentOf(1, 100_000))
	mustPut(t, n, blockIn(1, region.Bytes()[:100_000]))
	l, err := n.Match(context.Background(), [][]byte{hashOf(1)})
	if err != nil || l.Blocks() != 1 {
		t.Fatal(l, err)
	}
	stop()
	r := n.Get(context.Background(), []engine.GetBlock{wantedIn(1, region.Bytes()[:100_000])}, engine.GetOptions{WaitForDevice: true})[0]
	if r.Status != engine.StatusIOError || !errors.Is(r.Err, ErrUnreachable) {
		t.Errorf("while it is away: %v %v", r.Status, r.Err)
	}
	stop = start()
	defer stop()
	other := mustDial(t, "unix:"+path, Options{})
	if _, err := other.Namespace(context.Background(), layout.Opaque("somebody else's"), "", engine.NamespaceOptions{}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * dialPause)
	clear(region.Bytes())
	got := region.Bytes()[:100_000]
	r = n.Get(context.Background(), []engine.GetBlock{wantedIn(1, got)}, engine.GetOptions{WaitForDevice: true})[0]
	if r.Status != engine.StatusOK || !bytes.Equal(got, contentOf(1, 100_000)) {
		t.Errorf("when it is back: %v %v", r.Status, r.Err)
	}
	if l.Renew(context.Background()) {
		t.Error("the lease has outlived its server")
	}
	l.Release()
	if h, err := c.Health(context.Background()); err != nil || h.State != "ok" {
		t.Errorf("%+v %v", h, err)
	}
	if s, err := c.Stats(context.Background()); err != nil || !strings.Contains(string(s), "{") {
		t.Errorf("%s %v", s, err)
	}
}

// TestClosed: after Close everything is answered, with StatusClosed.
func TestClosed(t *testing.T) {
	r := newRig(t, server.Options{})
	c := mustDial(t, r.unix, Options{})
	n := mustSpace(t, c)
	if err := c.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 100)
	if got := n.Get(context.Background(), []engine.GetBlock{wantedIn(1, p)}, engine.GetOptions{}); len(got) != 1 || got[0].Status != engine.StatusClosed {
		t.Errorf("get: %+v", got)
	}
	if got := n.Put(context.Background(), []engine.PutBlock{blockIn(1, p)}, engine.PutOptions{}); len(got) != 1 || got[0].Status != engine.StatusClosed {
		t.Errorf("put: %+v", got)
	}
	if got := n.Has(context.Background(), [][]byte{hashOf(1)}); len(got) != 1 || got[0] != engine.StatusClosed {
		t.Errorf("has: %v", got)
	}
	if got := n.Drop(context.Background(), [][]byte{hashOf(1)}); len(got) != 1 || got[0].Status != engine.StatusClosed {
		t.Errorf("drop: %v", got)
	}
	if _, err := n.Match(context.Background(), [][]byte{hashOf(1)}); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("match: %v", err)
	}
	if _, err := c.NewRegion(4096); !errors.Is(err, engine.ErrClosed) {
		t.Errorf("region: %v", err)
	}
	if err := c.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// fakeServer answers each connection as it is told.
func fakeServer(t *testing.T, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(socketDir(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				serve(c)
			}()
		}
	}()
	return "unix:" + l.Addr().String()
}

// openAnswer is that of KV.OPEN, behind that of PING.
const openAnswer = "*7\r\n$2\r\nok\r\n:7\r\n$32\r\n000102030405060708090a0b0c0d0e0f\r\n:1\r\n$1\r\nt\r\n*0\r\n*0\r\n"

// TestServerHangs: a server that never answers holds nobody longer than the
// context lasts; with shared memory LingerMax longer, and then the region is
// lost.
func TestServerHangs(t *testing.T) {
	address := fakeServer(t, func(c net.Conn) {
		p := make([]byte, 64<<10)
		for {
			n, err := c.Read(p)
			if err != nil {
				return
			}
			switch cmd := string(p[:n]); {
			case strings.Contains(cmd, "PING"):
				_, _ = io.WriteString(c, "+PONG\r\n")
			case strings.Contains(cmd, "KV.OPEN"):
				_, _ = io.WriteString(c, openAnswer)
			case strings.Contains(cmd, "KV.REGION"):
				_, _ = io.WriteString(c, ":1\r\n")
			}
		}
	})
	c := mustDial(t, address, Options{LingerMax: 50 * time.Millisecond})
	n := mustSpace(t, c)
	region := mustRegion(t, c, 8192)
	get := func(mem []byte, timeout time.Duration) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		r := n.Get(ctx, []engine.GetBlock{wantedIn(1, mem)}, engine.GetOptions{WaitForDevice: true})[0]
		if r.Status != engine.StatusTimeout {
			t.Errorf("%v %v", r.Status, r.Err)
		}
	}
	get(make([]byte, 8192), 30*time.Millisecond)
	// On a slow machine the time is over before the command went out.
	for timeout := 30 * time.Millisecond; !region.Lost(); timeout *= 2 {
		if timeout > hangTimeout {
			t.Fatal("nobody says that the server may still use the region")
		}
		get(region.Bytes(), timeout)
	}
	for _, wait := range []bool{true, false} {
		r := n.Get(context.Background(), []engine.GetBlock{wantedIn(1, region.Bytes())}, engine.GetOptions{WaitForDevice: true})[0]
		if r.Status != engine.StatusInvalid || !errors.Is(r.Err, ErrRegionLost) {
			t.Errorf("a lost region, wait %v: %v %v", wait, r.Status, r.Err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(30*time.Millisecond, cancel)
	if got := n.Has(ctx, [][]byte{hashOf(1)}); got[0] != engine.StatusTimeout {
		t.Errorf("has: %v", got)
	}
	if got := n.Put(ctx, []engine.PutBlock{blockIn(1, make([]byte, 100))}, engine.PutOptions{}); got[0].Status != engine.StatusTimeout {
		t.Errorf("put: %v", got)
	}
}

// FuzzAnswers: a server that answers anything at all is not believed, and each
// block has exactly one result.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		"", "+OK\r\n", "-ERR no\r\n", "-LIMIT memory\r\n", "*1\r\n", "*-1\r\n", "*99999999999\r\n", ":1\r\n", "$-1\r\n",
		"*1\r\n*6\r\n$2\r\nok\r\n$0\r\n\r\n:100\r\n:100\r\n$0\r\n\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
		"*1\r\n*6\r\n$4\r\nmiss\r\n$0\r\n\r\n:0\r\n:0\r\n$0\r\n\r\n*0\r\n",
		"*1\r\n*6\r\n$2\r\nok\r\n$0\r\n\r\n:2\r\n:2\r\n$25\r\n\x01aaaaaaaaaaaaaaaa\x00\x00\x00\x00\x00\x00\x00\x00\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
		"*1\r\n*6\r\n$2\r\nok\r\n$0\r\n\r\n:2\r\n:2\r\n$0\r\n\r\n*2\r\n$536870912\r\na",
		"*1\r\n*4\r\n$2\r\nok\r\n$0\r\n\r\n$15\r\nexisted,durable\r\n:4096\r\n",
		"*7\r\n$2\r\nok\r\n:7\r\n$32\r\n000102030405060708090a0b0c0d0e0f\r\n:1\r\n$1\r\nt\r\n*1\r\n*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n*1\r\n$1\r\nw\r\n",
		"*2\r\n$15\r\nlayout-mismatch\r\n*0\r\n", "*3\r\n:2\r\n:1\r\n:60000\r\n", "*1\r\n$2\r\nOK\r\n",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		read := func(fn func(*answers) error) error { return fn(newAnswers(bytes.NewReader(answer))) }
		p := bytes.Repeat([]byte{0xa5}, 2)
		it := getItem{block: &engine.GetBlock{Hash: hashOf(1), Parts: wantedIn(1, p).Parts}, places: make([][]place, 2)}
		out := make([]engine.GetResult, 1)
		if err := read(func(a *answers) error { return readGets(a, []*getItem{&it}, out) }); err != nil && out[0].Status == engine.StatusOK {
			t.Fatal("OK with an error")
		}
		if out[0].Status != engine.StatusOK && (p[0] != 0xa5 || p[1] != 0xa5) {
			t.Fatalf("%v, and the destination was written", out[0].Status)
		}
		b := blockIn(1, p)
		puts := make([]engine.PutResult, 1)
		_ = read(func(a *answers) error { return putGroup{[]putItem{{block: &b}}}.read(a, puts) })
		_ = read(func(a *answers) error { _, err := a.opened(); return err })
		_ = read(func(a *answers) error { return (&Lease{}).read(a, 2) })
		_ = read(func(a *answers) error { _, err := a.texts(); return err })
	})
}

// expiring is a context whose deadline has passed and that does not know yet.
type expiring struct{ context.Context }

func (expiring) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }

// TestCallsOwnEndSaysNothingOfTheServer: a call whose time ends while it dials
// answers that, and the next call dials again instead of failing for it.
func TestCallsOwnEndSaysNothingOfTheServer(t *testing.T) {
	r := newRig(t, server.Options{})
	p := newPool(r.unix, Options{}.withDefaults())
	s := &slot{}
	if err := p.connected(expiring{context.Background()}, s); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrUnreachable) || s.conn != nil {
		t.Errorf("out of time: %v, connection %v", err, s.conn)
	}
	if err := p.connected(context.Background(), s); err != nil {
		t.Fatalf("the next call: %v", err)
	}
	s.drop()
}
