package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server"
	"go.uber.org/goleak"
)

// childVariable makes the test binary a server that can be killed.
const childVariable = "SEALSTONE_TEST_LOAD_CHILD"

// hang ends a test that would wait for ever; nothing depends on it else.
const hang = 90 * time.Second

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		if err := childMain(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// childConfig is what a child is told on its first line.
type childConfig struct {
	Dir, Socket string
	Store       storeConfig
	Server      server.Options
}

// storeConfig are options of the store; those of functions can not be sent.
type storeConfig struct {
	CapacityBytes, SegmentBytes, MaxBlockBytes, MaxInflightBytes, HostCacheBytes int64
	WriteBudgetBytesPerDay                                                       int64
	LeaseDuration                                                                time.Duration
}

func (s storeConfig) options() engine.Options {
	return engine.Options{
		CapacityBytes: s.CapacityBytes, SegmentBytes: s.SegmentBytes, MaxBlockBytes: s.MaxBlockBytes,
		MaxInflightBytes: s.MaxInflightBytes, HostCacheBytes: s.HostCacheBytes, WriteBudgetBytesPerDay: s.WriteBudgetBytesPerDay,
		LeaseDuration: s.LeaseDuration, FreeFloorBytes: 1, IndexCacheBytes: 8 << 20, HintBytes: 1 << 20,
	}
}

// childState is what a child says of itself.
type childState struct {
	Address    string // of TCP
	Goroutines int
	Server     server.Stats
	Store      engine.Stats
	Health     engine.HealthState
	Leak       string // after the end: goroutines that are left
}

// childMain serves until it is told to stop, killed, or its parent is gone.
func childMain(in io.Reader, out io.Writer) error {
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return errors.New("no configuration")
	}
	var c childConfig
	if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
		return err
	}
	ignore := goleak.IgnoreCurrent()
	store, err := engine.Open(c.Dir, c.Store.options())
	if err != nil {
		return err
	}
	s, err := server.New(store, c.Server)
	if err != nil {
		return err
	}
	addr, err := childListen(s, c.Socket)
	if err != nil {
		return err
	}
	tell := func(leak string) error {
		return json.NewEncoder(out).Encode(childState{addr, runtime.NumGoroutine(), s.Stats(), store.Stats(), store.Health().State, leak})
	}
	if err := tell(""); err != nil {
		return err
	}
	for lines.Scan() && lines.Text() != "stop" {
		if err := tell(""); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	if left, err := s.Shutdown(ctx); err != nil {
		return fmt.Errorf("shutdown: %+v: %w", left, err)
	}
	if err := store.Close(ctx); err != nil {
		return err
	}
	leak := ""
	if err := goleak.Find(ignore); err != nil {
		leak = err.Error()
	}
	return tell(leak)
}

// childListen serves on a Unix socket and on a port of TCP.
func childListen(s *server.Server, socket string) (address string, err error) {
	_ = os.Remove(socket)
	u, err := net.Listen("unix", socket)
	if err != nil {
		return "", err
	}
	t, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	for _, l := range []net.Listener{u, t} {
		go s.Serve(l)
	}
	return t.Addr().String(), nil
}

// held is what clients make a server hold.
type held struct {
	Connections, Reads, Queued       int
	ValueBytes, InflightBytes, Lease int64
}

func (s *childState) held() held {
	return held{s.Server.Connections, s.Store.ReadsInFlight, s.Store.SubmitQueued, s.Server.ValueBytes, s.Store.InflightBytes, s.Store.LeasedBytes}
}

// child is a server in a process of its own.
type child struct {
	t       *testing.T
	cmd     *exec.Cmd
	in      io.WriteCloser
	out     *json.Decoder
	first   childState
	waited  bool
	openFor time.Duration
}

func startChild(t *testing.T, c childConfig) *child {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	k := &child{t: t, cmd: exec.Command(self)}
	k.cmd.Env = append(os.Environ(), childVariable+"=1")
	k.cmd.Stderr = os.Stderr
	if k.in, err = k.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	k.out = json.NewDecoder(out)
	if err := k.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.kill)
	began := time.Now()
	b, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	k.first = k.ask(string(b))
	k.openFor = time.Since(began)
	return k
}

// ask writes a line and reads what the child says of itself.
func (k *child) ask(line string) (s childState) {
	k.t.Helper()
	s, err := k.tryAsk(line)
	if err != nil {
		k.t.Fatalf("the child says nothing: %v", err)
	}
	return s
}

func (k *child) tryAsk(line string) (s childState, err error) {
	if _, err := io.WriteString(k.in, line+"\n"); err != nil {
		return s, err
	}
	return s, k.out.Decode(&s)
}

func (k *child) state() childState {
	k.t.Helper()
	return k.ask("state")
}

// kill ends the child with SIGKILL.
func (k *child) kill() {
	if k.waited {
		return
	}
	k.waited = true
	_ = k.cmd.Process.Kill()
	_ = k.cmd.Wait()
}

// stop ends it in order, and sees that it leaves nothing.
func (k *child) stop() {
	k.t.Helper()
	if s := k.ask("stop"); s.Leak != "" {
		k.t.Errorf("goroutines are left: %s", s.Leak)
	}
	k.waited = true
	if err := k.cmd.Wait(); err != nil {
		k.t.Errorf("the child: %v", err)
	}
}

// settles waits until a state holds for good.
func (k *child) settles(what string, holds func(childState) bool) {
	k.t.Helper()
	var s childState
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if s = k.state(); holds(s) {
			return
		}
	}
	k.t.Fatalf("%s: not within %v: %+v", what, hang, s.held())
}
