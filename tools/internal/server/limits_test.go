package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server/resp"
	"github.com/sealstone/sealstone/tools/internal/server/shm"
)

// soon is a timeout for tests in which it is to pass.
const soon = 100 * time.Millisecond

func TestConnectionsMax(t *testing.T) {
	r := newRig(t, Options{ConnectionsMax: 2})
	a, b := r.dial(), r.dial()
	a.want(status("PONG"), "PING")
	b.want(status("PONG"), "PING")
	c := r.dial()
	c.exact("-ERR max number of clients reached\r\n")
	c.ended()
	a.want(ok, "QUIT")
	a.ended()
	r.eventually(func() bool { return r.s.Stats().Connections == 1 })
	r.dial().want(status("PONG"), "PING")
	if st := r.s.Stats(); st.ConnectionsRefused != 1 || st.ConnectionsAccepted != 3 {
		t.Errorf("%d refused, %d accepted", st.ConnectionsRefused, st.ConnectionsAccepted)
	}
}

// TestMalformed: a malformed frame is answered by one error line, ends its own
// connection after what came before it was answered, and no other.
func TestMalformed(t *testing.T) {
	r := newRig(t, Options{})
	stays := r.dial()
	for _, in := range []string{
		"*x\r\n", "*1\r\n$x\r\n", "*1\r\n$4\r\nPINGxx", "*1000000\r\n", "$4\r\nPING\r\n*1\r\nx\r\n", "GET \"k\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000000000\r\n", "*1\r\n$9000\r\n" + strings.Repeat("x", 9002),
	} {
		p := r.dial()
		p.send(frame("ECHO", "before") + in)
		if a := p.answer(); a != "before" {
			t.Fatalf("%.40q: %#v", in, a)
		}
		for {
			if f, isFailure := p.answer().(failure); isFailure && strings.HasPrefix(string(f), "ERR Protocol error: ") {
				break
			}
		}
		p.ended()
		stays.want(status("PONG"), "PING")
	}
	if n := r.s.Stats().ProtocolErrors; n != 8 {
		t.Errorf("%d protocol errors counted, want 8", n)
	}
}

// TestPipeline: thousands of commands that were sent ahead are answered in
// order, with values of all sizes among them.
func TestPipeline(t *testing.T) {
	p := newRig(t, Options{}).dial()
	const n = 80
	value := func(i int) string {
		return strings.Repeat(string(rune('a'+i%26)), []int{1, 5000, 20_000, 300_000}[i%4])
	}
	sent := make(chan error, 1)
	go func() {
		for i := range n {
			k := fmt.Sprint("k", i%64)
			if _, err := io.WriteString(p.c, frame("SET", k, value(i))+frame("GET", k)+frame("ECHO", fmt.Sprint(i))+frame("MGET", k, "no", k)); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for i := range n {
		v := value(i)
		for j, want := range []any{ok, v, fmt.Sprint(i), []any{v, nil, v}} {
			if got := p.answer(); fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
				t.Fatalf("command %d.%d: %.60v, want %.60v", i, j, got, want)
			}
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
}

// TestPipelineUnread: a client that sends all of its commands before it reads
// the first answer is served, however much both are. Unix sockets have small
// buffers.
func TestPipelineUnread(t *testing.T) {
	r := newRig(t, Options{})
	p := r.dialUnix()
	const n, size = 30, 200_000
	value := strings.Repeat("v", size)
	p.want(ok, "SET", "k", value)
	for range n {
		p.send(frame("GET", "k") + frame("ECHO", value[:50_000]))
	}
	for range n {
		p.exact(fmt.Sprintf("$%d\r\n%s\r\n$50000\r\n%s\r\n", size, value, value[:50_000]))
	}
	p.want(status("PONG"), "PING")
	r.eventually(func() bool { return r.s.Stats().ValueBytes == 0 })
	if r.s.count.readAheads.Load() == 0 {
		t.Error("nothing was read ahead: the test is too small for the buffers of the system")
	}
}

// TestByteByByte: a client that sends one byte at a time is served.
func TestByteByByte(t *testing.T) {
	p := newRig(t, Options{}).dial()
	for _, b := range []byte(frame("SET", "k", "value") + "get k\r\n") {
		p.send(string(b))
	}
	p.exact("+OK\r\n$5\r\nvalue\r\n")
}

// TestValueMemory: values that find no room are shed, the memory never holds
// more than its bound, and it is empty in the end.
func TestValueMemory(t *testing.T) {
	r := newRig(t, Options{ValueBytesMax: 1 << 20, ValueMemoryBytes: 2 << 20, PipelinedBytesMax: 2 << 20})
	h := r.dial().open(testLayout(t, "fp16"))
	holder := r.dial()
	// A value that has begun holds its memory until it is there.
	holder.send("*3\r\n$3\r\nSET\r\n$4\r\nheld\r\n$1048576\r\n" + strings.Repeat("x", 20_000))
	r.eventually(func() bool { return r.s.Stats().ValueBytes > 1<<20 })
	p := r.dial()
	k, v := planesOf(1)
	args := []string{"KV.PUT", h, "", "3"}
	for i := range 3 {
		args = append(args, hashOf(i), "", "", "2", "k", "B", k+strings.Repeat("x", 500_000), "v", "B", v)
	}
	a, _ := p.do(args...).([]any)
	shed := 0
	for _, b := range a {
		if b.([]any)[0] == "Shed" && strings.Contains(b.([]any)[1].(string), "no room") {
			shed++
		}
	}
	if len(a) != 3 || shed == 0 {
		t.Errorf("KV.PUT: %v", a)
	}
	holder.send(strings.Repeat("x", 1<<20-20_000) + "\r\n")
	holder.exact("+OK\r\n")
	p.want(strings.Repeat("x", 1<<20), "GET", "held")
	r.eventually(func() bool { return r.s.Stats().ValueBytes == 0 })
	if st := r.s.Stats(); st.Limits["memory"] == 0 || st.Kinds["block"].Shed == 0 {
		t.Errorf("%v %+v", st.Limits, st.Kinds["block"])
	}
}

// TestShedSetDropsOld: a set that is shed leaves no old value behind.
func TestShedSetDropsOld(t *testing.T) {
	p := newRig(t, Options{ValueBytesMax: 100_000}).dial()
	p.want(ok, "SET", "k", "old")
	p.want(ok, "SET", "k", strings.Repeat("x", 100_001))
	p.want(nil, "GET", "k")
	p.want(ok, "SET", "k", "old")
	p.want(ok, "SET", "k", strings.Repeat("x", 100_001), "NX") // which would not have replaced it
	p.want("old", "GET", "k")
	p.fails("LIMIT value-bytes: argument 1 of 100001 bytes", "GET", strings.Repeat("x", 100_001))
	p.want(status("PONG"), "PING")
}

func TestHandlesMax(t *testing.T) {
	p := newRig(t, Options{HandlesMax: 2}).dial()
	a := p.open(testLayout(t, "a"))
	p.open(testLayout(t, "b"))
	p.fails("LIMIT handles", "KV.OPEN", testLayout(t, "c"))
	next := fmt.Sprint(p.do("KV.EPOCH", a).([]any)[0]) // takes the place of the older epoch's
	p.want([]any{"Miss"}, "KV.HAS", next, hashOf(1))
	p.fails("BADHANDLE", "KV.HAS", a, hashOf(1))
}

func TestLeasesMax(t *testing.T) {
	r := newRig(t, Options{})
	p := r.dial()
	h := p.open(testLayout(t, "fp16"))
	p.put(h, 1)
	for range leasesMax {
		p.send(frame("KV.MATCH", h, hashOf(1)))
	}
	for range leasesMax {
		if a := p.answer().([]any); a[1] == int64(0) {
			t.Fatalf("KV.MATCH: %v", a)
		}
	}
	p.want([]any{int64(1), int64(0), int64(0)}, "KV.MATCH", h, hashOf(1))
	if n := r.s.Stats().Limits["leases"]; n != 1 {
		t.Errorf("%d leases over the limit counted", n)
	}
}

// TestIdle: connections without a command are kept by default, and closed after
// IdleTimeout where there is one.
func TestIdle(t *testing.T) {
	r := newRig(t, Options{IdleTimeout: soon})
	p := r.dial()
	p.want(status("PONG"), "PING")
	p.ended()
	if st := r.s.Stats(); st.IdleTimeouts != 1 || st.ReadTimeouts != 0 {
		t.Errorf("%d idle, %d read timeouts", st.IdleTimeouts, st.ReadTimeouts)
	}
}

// TestSlowWriter: a command that has begun must come to its end, also one that
// comes in drops; a connection that waits is not touched.
func TestSlowWriter(t *testing.T) {
	r := newRig(t, Options{ReadTimeout: soon})
	waits := r.dial()
	waits.want(status("PONG"), "PING")
	for _, begun := range []string{"*1\r\n$400\r\nPI", "PI", "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\nxxx"} {
		p := r.dial()
		p.send(begun)
		stop := make(chan struct{})
		dripped := make(chan struct{})
		go func() {
			defer close(dripped)
			for {
				select {
				case <-stop:
					return
				case <-time.After(soon / 10):
					if _, err := io.WriteString(p.c, "x"); err != nil {
						return
					}
				}
			}
		}()
		// Dripping resets nothing: the connection ends (by a reset, maybe, as
		// bytes are on their way).
		_, _ = io.Copy(io.Discard, p.in)
		close(stop)
		<-dripped
	}
	waits.want(status("PONG"), "PING")
	if n := r.s.Stats().ReadTimeouts; n != 3 {
		t.Errorf("%d read timeouts, want 3", n)
	}
}

// TestSlowReader: a client that does not read its answers is cut off, and what
// the store had lent for them comes back.
func TestSlowReader(t *testing.T) {
	r := newRig(t, Options{WriteTimeout: soon})
	p := r.dial()
	p.want(ok, "SET", "k", strings.Repeat("x", 1<<20))
	go func() { // more answers than all buffers hold
		for range 100 {
			if _, err := io.WriteString(p.c, frame("GET", "k")); err != nil {
				return
			}
		}
	}()
	r.eventually(func() bool { st := r.s.Stats(); return st.Connections == 0 && st.WriteTimeouts == 1 })
	q := r.dial()
	q.want(strings.Repeat("x", 1<<20), "GET", "k")
}

// TestPanic: a command that panics ends its own connection.
func TestPanic(t *testing.T) {
	r := newRig(t, Options{})
	stays := r.dial()
	stays.want(status("PONG"), "PING")
	p := r.dial()
	p.fails("ERR internal error", "TEST.PANIC")
	p.ended()
	stays.want(status("PONG"), "PING")
	if st := r.s.Stats(); st.Panics != 1 || st.Commands["TEST.PANIC"].Errors != 1 {
		t.Errorf("%d panics, %+v", st.Panics, st.Commands["TEST.PANIC"])
	}
}

// gate holds the command TEST.WAIT until it is closed.
var gate = make(chan chan struct{}, 16)

func init() {
	register(
		definition{name: "TEST.PANIC", do: func(*conn, *resp.Command) { panic("on purpose") }},
		definition{name: "TEST.WAIT", do: func(c *conn, _ *resp.Command) {
			wait := make(chan struct{})
			gate <- wait
			<-wait
			c.out.Simple("WAITED")
		}},
	)
}

// TestShutdown: what was received is answered, then the connections end.
func TestShutdown(t *testing.T) {
	r := newRig(t, Options{})
	idle, busy, half := r.dial(), r.dial(), r.dial()
	idle.want(status("PONG"), "PING")
	half.send("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$20000\r\n" + strings.Repeat("x", 10_000))
	busy.send(frame("TEST.WAIT") + frame("ECHO", "after"))
	wait := <-gate
	r.eventually(func() bool { return r.s.Stats().ValueBytes > 0 })
	type outcome struct {
		left Left
		err  error
	}
	done := make(chan outcome, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), hang)
		defer cancel()
		left, err := r.s.Shutdown(ctx)
		done <- outcome{left, err}
	}()
	idle.ended()
	close(wait)
	busy.exact("+WAITED\r\n$5\r\nafter\r\n")
	busy.ended()
	half.send(strings.Repeat("x", 10_000) + "\r\n")
	half.exact("+OK\r\n")
	half.ended()
	if o := <-done; o.err != nil || o.left != (Left{}) {
		t.Fatalf("%+v", o)
	}
	if err := <-r.done; !errors.Is(err, ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	r.done <- ErrClosed
	if c, err := net.Dial("tcp", r.addr); err == nil {
		c.Close()
		t.Error("still listening")
	}
}

// TestShutdownCut: when its time is up the rest is cut off, and said.
func TestShutdownCut(t *testing.T) {
	r := newRig(t, Options{})
	busy, half := r.dial(), r.dial()
	half.send("*1\r\n$4\r\nPI")
	busy.send(frame("TEST.WAIT"))
	wait := <-gate
	r.eventually(func() bool { return r.s.Stats().BytesIn >= int64(len("*1\r\n$4\r\nPI")+len(frame("TEST.WAIT"))) })
	ctx, cancel := context.WithTimeout(context.Background(), soon)
	defer cancel()
	left, err := r.s.Shutdown(ctx)
	if !errors.Is(err, context.DeadlineExceeded) || left != (Left{Connections: 2, Requests: 1}) {
		t.Errorf("left %+v, %v", left, err)
	}
	close(wait)
	r.eventually(func() bool { return r.s.Stats().Connections == 0 })
}

// TestServeAfterShutdown: a server that was shut down accepts nothing.
func TestServeAfterShutdown(t *testing.T) {
	r := newRig(t, Options{})
	if _, err := r.s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := r.s.Serve(l); !errors.Is(err, ErrClosed) {
		t.Errorf("Serve: %v", err)
	}
	if _, err := r.s.Shutdown(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Shutdown: %v", err)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{
		{ConnectionsMax: -1}, {ValueBytesMax: -1}, {ValueBytesMax: engine.MaxBlockBytes + 1}, {PipelinedBytesMax: 10},
		{ValueMemoryBytes: 1 << 20}, {ReadTimeout: -1}, {WriteTimeout: -1}, {IdleTimeout: -1}, {RequestTimeout: -1}, {HandlesMax: -1}, {LeaseDuration: -1},
	} {
		if _, err := New(nil, o); !errors.Is(err, ErrOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestReadOnlyStore: on a store that can not write, sets are OK and nothing, and
// gets are misses: no error line.
func TestReadOnlyStore(t *testing.T) {
	r := newRig(t, Options{})
	p := r.dial()
	p.want(ok, "SET", "k", "v")
	if err := r.store.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.want(ok, "SET", "m", "v")
	p.want(nil, "GET", "k")
	p.want([]any{nil, nil}, "MGET", "k", "m")
	p.want(int64(0), "EXISTS", "k")
	p.want(int64(0), "DEL", "k")
	p.want(int64(0), "STRLEN", "k")
	p.want(int64(-2), "TTL", "k")
	p.want([]any{"0", []any{}}, "SCAN", "0")
	p.want([]any{"closed", []any{}}, "KV.HEALTH")
}

// TestRegionsInStats: figures of shared memory have their bounds beside them.
func TestRegionsInStats(t *testing.T) {
	r := newRig(t, Options{Regions: shm.Limits{HostRegionsMax: 7, HostBytesMax: 1 << 20}})
	if got, want := r.s.Stats().Shared, (shm.Stats{RegionsMax: 7, BytesMax: 1 << 20}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
