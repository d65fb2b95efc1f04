package core

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine/layout"
)

// silentServer stands before a server and can keep its answers back.
type silentServer struct {
	hold  atomic.Bool
	asked chan struct{} // something came while answers were kept back
	gate  chan struct{} // closed: answers go through again
}

// before puts a silentServer before the server that options name, and gives the
// options that lead to it.
func before(t *testing.T, options []byte) (*silentServer, []byte) {
	t.Helper()
	var o struct{ Server string }
	if err := json.Unmarshal(options, &o); err != nil {
		t.Fatal(err)
	}
	behind := strings.TrimPrefix(o.Server, "unix:")
	s := &silentServer{asked: make(chan struct{}, 1), gate: make(chan struct{})}
	l, err := net.Listen("unix", filepath.Join(filepath.Dir(behind), "p"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", behind)
			if err != nil {
				_ = from.Close()
				return
			}
			go s.pass(to, from, false)
			go s.pass(from, to, true)
		}
	}()
	return s, mustJSON(map[string]any{"server": "unix:" + l.Addr().String()})
}

func (s *silentServer) pass(to, from net.Conn, answers bool) {
	defer to.Close()
	p := make([]byte, 4096)
	for {
		n, err := from.Read(p)
		if err != nil {
			return
		}
		if s.hold.Load() {
			if answers {
				<-s.gate
			} else {
				select {
				case s.asked <- struct{}{}:
				default:
				}
			}
		}
		if _, err := to.Write(p[:n]); err != nil {
			return
		}
	}
}

// TestCloseBesideServerCall: a call that the server has not answered keeps the
// store: close answers Closing, and ends it later.
func TestCloseBesideServerCall(t *testing.T) {
	silent, options := before(t, openReal(t).served())
	l := New()
	store, e := l.Open(options)
	if e != nil {
		t.Fatal(e)
	}
	ns, _, e := l.OpenSpace(store, mustJSON(layout.Opaque("remote")), "", nil)
	if e != nil {
		t.Fatal(e)
	}
	silent.hold.Store(true)
	matched := make(chan *Error, 1)
	go func() {
		_, _, e := l.Match(ns, make([]byte, 32), 32, time.Minute)
		matched <- e
	}()
	<-silent.asked
	if e := l.Close(store, time.Millisecond); e == nil || e.Status != Closing {
		t.Errorf("close beside a call: %v", e)
	}
	close(silent.gate)
	if e := <-matched; e != nil {
		t.Errorf("the call: %v", e)
	}
	if e := l.Close(store, time.Minute); e != nil {
		t.Errorf("close again: %v", e)
	}
}
