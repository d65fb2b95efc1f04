package client

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sealstone/sealstone/engine"
)

// slot is a place for a connection. Who took it from the pool has it alone.
type slot struct {
	conn *conn // nil: none yet, or it broke
	used bool  // it has answered a call before, and may have ended since
}

// pool lends connections. One more than the calls that move bytes have is kept
// for short questions, and for leases, which belong to their connection.
type pool struct {
	address string
	o       Options
	idle    chan *slot
	asks    chan *slot
	done    chan struct{} // closed with the client

	mu       sync.Mutex
	failed   error // of the last try to connect
	failedAt time.Time

	closing sync.Mutex // one close at a time
	closed  int        // slots that close has
}

// dialPause is how long a server that cannot be reached is not tried again.
const dialPause = 100 * time.Millisecond

func newPool(address string, o Options) *pool {
	p := &pool{address: address, o: o, idle: make(chan *slot, o.Connections), asks: make(chan *slot, 1), done: make(chan struct{})}
	for range o.Connections {
		p.idle <- &slot{}
	}
	p.asks <- &slot{}
	return p
}

// take waits for a slot of a kind.
func (p *pool) take(ctx context.Context, from chan *slot) (*slot, error) {
	select {
	case <-p.done:
		return nil, engine.ErrClosed
	default:
	}
	select {
	case s := <-from:
		return s, nil
	case <-p.done:
		return nil, engine.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// give gives a slot back, without a connection that is of no use any more.
func (p *pool) give(to chan *slot, s *slot) {
	if s.conn != nil {
		s.conn.forgetRegions()
	}
	if s.conn != nil && s.conn.spent {
		s.drop()
	}
	to <- s
}

func (s *slot) drop() {
	s.conn.close()
	s.conn, s.used = nil, false
}

// connected sees that the slot has a connection.
func (p *pool) connected(ctx context.Context, s *slot) error {
	if s.conn != nil {
		return nil
	}
	p.mu.Lock()
	err := p.failed
	if time.Since(p.failedAt) >= dialPause {
		err = nil
	}
	p.mu.Unlock()
	if err != nil {
		return err
	}
	c, err := connect(ctx, p.address, p.o)
	if err != nil && over(ctx) { // it says nothing of the server, and the next call may have more time
		return cmp.Or(ctx.Err(), context.DeadlineExceeded)
	}
	p.mu.Lock()
	p.failed, p.failedAt = err, time.Now()
	p.mu.Unlock()
	s.conn, s.used = c, false
	return err
}

// over reports whether the time of a call has ended. A dial looks at the
// deadline itself, and may end before the context knows.
func over(ctx context.Context) bool {
	end, has := ctx.Deadline()
	return ctx.Err() != nil || has && !time.Now().Before(end)
}

// with does work on a connection. Work that found its connection ended, before
// any answer, is done once more on a new one if it may be repeated: a server
// that was started again answers the first call.
func (p *pool) with(ctx context.Context, from chan *slot, repeat bool, work func(*conn) error) error {
	s, err := p.take(ctx, from)
	if err != nil {
		return err
	}
	defer p.give(from, s)
	for {
		if err := p.connected(ctx, s); err != nil {
			return err
		}
		used := s.used
		err := work(s.conn)
		s.used = true
		if err == nil || !s.conn.spent || !used || !repeat || !s.conn.fresh() ||
			!errors.Is(err, ErrUnreachable) || ctx.Err() != nil {
			return err
		}
		s.drop()
	}
}

// close waits for all slots to come back, or for ctx, and closes their
// connections.
func (p *pool) close(ctx context.Context) error {
	p.mu.Lock()
	select {
	case <-p.done:
	default:
		close(p.done)
	}
	p.mu.Unlock()
	p.closing.Lock()
	defer p.closing.Unlock()
	for ; p.closed < cap(p.idle)+cap(p.asks); p.closed++ {
		var s *slot
		select {
		case s = <-p.idle:
		case s = <-p.asks:
		case <-ctx.Done():
			return ctx.Err()
		}
		if s.conn != nil {
			s.drop()
		}
	}
	return nil
}
