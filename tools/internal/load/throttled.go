package load

import (
	"context"
	"net"
	"time"
)

const (
	// slowBytes are read or written between two pauses of slowPause: some
	// 400 KiB/s, so that a MiB takes seconds and not half a minute, after which
	// a server may hang up.
	slowBytes = 4 << 10
	slowPause = 10 * time.Millisecond
	// slowPatience is by how much longer a slow connection waits.
	slowPatience = 4
)

// throttled is a connection whose peer has time.
type throttled struct {
	net.Conn
	ctx context.Context
}

func (t *throttled) pause() {
	select {
	case <-t.ctx.Done():
	case <-time.After(slowPause):
	}
}

// Read implements io.Reader.
func (t *throttled) Read(p []byte) (int, error) {
	t.pause()
	return t.Conn.Read(p[:min(len(p), slowBytes)])
}

// Write implements io.Writer.
func (t *throttled) Write(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		t.pause()
		var k int
		k, err = t.Conn.Write(p[n:min(n+slowBytes, len(p))])
		n += k
	}
	return n, err
}
