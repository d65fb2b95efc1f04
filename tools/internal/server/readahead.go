package server

import "time"

const (
	// stallPause is how long a write may take before the connection's input
	// is read ahead.
	stallPause = 20 * time.Millisecond
	// aheadBytesMax bounds what is read ahead of a connection. All together
	// share the room for long lists of arguments.
	aheadBytesMax = 16 << 20
)

// readAhead reads a connection's input while a write to it does not come to
// its end. Many clients send all commands of a pipeline before they read the
// first answer: both sides would wait for the other to read.
type readAhead struct {
	c     *conn
	timer *time.Timer
	done  chan struct{} // of a run that has begun
	over  bool          // the write is; under conn.mu
}

func (a *readAhead) init(c *conn) {
	a.c = c
	a.done = make(chan struct{}, 1)
	a.timer = time.AfterFunc(time.Hour, a.run)
	a.timer.Stop()
}

// begin and end stand around each write.
func (a *readAhead) begin() {
	a.c.mu.Lock()
	a.over = false
	a.c.mu.Unlock()
	a.timer.Reset(stallPause)
}

func (a *readAhead) end() {
	if a.timer.Stop() {
		return // it has not begun
	}
	c := a.c
	c.mu.Lock()
	a.over, c.deadline, c.renewed = true, true, -1
	_ = c.net.SetReadDeadline(time.Unix(1, 0))
	c.mu.Unlock()
	<-a.done
}

// run reads until end moves the deadline.
func (a *readAhead) run() {
	c := a.c
	c.mu.Lock()
	over := a.over
	if !over {
		_ = c.net.SetReadDeadline(time.Time{})
	}
	c.mu.Unlock()
	if !over {
		c.s.count.readAheads.Add(1)
		c.in.ReadAhead(min(aheadBytesMax, c.s.o.PipelinedBytesMax))
	}
	a.done <- struct{}{}
}
