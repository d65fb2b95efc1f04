package server

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server/shm"
)

// Server answers commands on the listeners given to Serve.
type Server struct {
	store  *engine.Store
	o      Options
	memory *memory
	spaces *spaces
	shared *shm.Host
	count  counters
	// overwrites keep sets of the same key apart.
	overwrites overwriteLocks
	hidden     *hidden

	mu        sync.Mutex
	listeners map[net.Listener]struct{}
	conns     map[*conn]struct{}
	idle      chan struct{} // closed when, after Shutdown, no connection is left
	closing   atomic.Bool
	lastID    atomic.Int64
	started   time.Time
}

// New makes a server of an open store, which stays the caller's: it must not
// be closed before Shutdown has returned.
func New(store *engine.Store, o Options) (*Server, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Server{
		overwrites: overwriteLocks{seed: maphash.MakeSeed()}, hidden: newHidden(o.HiddenKeysMax),
		store: store, o: o, memory: newMemory(o.ValueMemoryBytes), spaces: newSpaces(store, o.HandlesMax), shared: shm.NewHost(store, o.Regions),
		listeners: map[net.Listener]struct{}{}, conns: map[*conn]struct{}{}, idle: make(chan struct{}), started: time.Now(),
	}, nil
}

// Serve accepts connections until Shutdown, when it returns ErrClosed, or
// until the listener fails. It closes the listener. It may be called for
// several listeners, TCP, TLS or Unix, at a time.
func (s *Server) Serve(l net.Listener) error {
	defer l.Close()
	s.mu.Lock()
	if s.closing.Load() {
		s.mu.Unlock()
		return ErrClosed
	}
	s.listeners[l] = struct{}{}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.listeners, l)
		s.mu.Unlock()
	}()
	for {
		nc, err := l.Accept()
		if err == nil {
			s.admit(nc)
			continue
		}
		if s.closing.Load() {
			return ErrClosed
		}
		// Out of descriptors, or a connection that ended in the queue: it
		// passes, and the listener is still good.
		if !temporary(err) {
			return fmt.Errorf("server: accept: %w", err)
		}
		s.count.acceptErrors.Add(1)
		time.Sleep(acceptPause)
	}
}

// acceptPause keeps a listener without descriptors from spinning.
const acceptPause = 20 * time.Millisecond

func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

// admit begins a connection, or refuses it in Redis' words.
func (s *Server) admit(nc net.Conn) {
	c := newConn(s, nc)
	s.mu.Lock()
	closing, full := s.closing.Load(), len(s.conns) >= s.o.ConnectionsMax
	if !closing && !full {
		s.conns[c] = struct{}{}
	}
	s.mu.Unlock()
	switch {
	case closing:
		_ = nc.Close()
	case full:
		s.count.connectionsRefused.Add(1)
		// A fresh socket takes a line without waiting; the deadline is for TLS.
		_ = nc.SetDeadline(time.Now().Add(acceptPause))
		_, _ = nc.Write([]byte("-ERR max number of clients reached\r\n"))
		_ = nc.Close()
	default:
		s.count.connections.Add(1)
		go c.serve()
	}
}

// ended forgets a connection.
func (s *Server) ended(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.closing.Load() && len(s.conns) == 0 {
		close(s.idle)
	}
}

// Left is what Shutdown cut off.
type Left struct {
	// Connections that were closed before they had come to an end, Requests
	// of them that were under way: begun and not answered.
	Connections, Requests int
}

// Shutdown stops accepting, lets every connection answer what it has received,
// and closes it. When the context ends first, what is left is cut off, and the
// error is that of the context. No goroutine of the server runs any more when
// it has returned, but for commands that wait for the store: those end with
// it, or within RequestTimeout.
func (s *Server) Shutdown(ctx context.Context) (Left, error) {
	s.mu.Lock()
	if s.closing.Swap(true) {
		s.mu.Unlock()
		return Left{}, ErrClosed
	}
	for l := range s.listeners {
		_ = l.Close()
	}
	for c := range s.conns {
		c.wake()
	}
	if len(s.conns) == 0 {
		close(s.idle)
	}
	s.mu.Unlock()
	var left Left
	var err error
	select {
	case <-s.idle:
	case <-ctx.Done():
		left, err = s.cut(), ctx.Err()
	}
	s.hidden.close()
	if keys, blind := s.hidden.left(); len(keys)+len(blind) > 0 {
		s.o.Logger.Warn("sealstone: the store could not log the removal of values that were overwritten; the next process may answer with them", "keys", len(keys), "whole tenants", len(blind))
	}
	s.memory.pool.Close()
	return left, err
}

// cut closes the connections that are left.
func (s *Server) cut() Left {
	s.mu.Lock()
	defer s.mu.Unlock()
	left := Left{Connections: len(s.conns)}
	for c := range s.conns {
		if c.busy.Load() {
			left.Requests++
		}
		// The end of its connection tells a peer that nothing is under way in
		// the memory that it shares: that one ends when it is true.
		if c.regions == nil || !c.regions.InUse() {
			_ = c.net.Close()
		}
	}
	return left
}
