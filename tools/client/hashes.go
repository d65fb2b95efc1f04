package client

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/wire"
)

// hashesMax is how many hashes go in one command.
const hashesMax = 16 << 10

// Has is that of engine.Namespace.
func (n *Namespace) Has(ctx context.Context, hashes [][]byte) []engine.Status {
	return n.each(ctx, "KV.HAS", n.c.pool.asks, hashes)
}

// Touch is that of engine.Namespace.
func (n *Namespace) Touch(ctx context.Context, hashes [][]byte) []engine.Status {
	return n.each(ctx, "KV.TOUCH", n.c.pool.asks, hashes)
}

// Drop is that of engine.Namespace. It waits for a sync, so it goes with the
// calls that move bytes.
func (n *Namespace) Drop(ctx context.Context, hashes [][]byte) []engine.Result {
	out := make([]engine.Result, len(hashes))
	for i, st := range n.each(ctx, "KV.DROP", n.c.pool.idle, hashes) {
		if out[i].Status = st; st != engine.StatusOK {
			out[i].Err = &engine.BlockError{Status: st, Hash: bytes.Clone(hashes[i]), Offset: -1}
		}
	}
	return out
}

// each asks for a status of each hash.
func (n *Namespace) each(ctx context.Context, name string, from chan *slot, hashes [][]byte) []engine.Status {
	ctx, cancel := n.c.bounded(ctx)
	defer cancel()
	out := make([]engine.Status, len(hashes))
	var good [][]byte // one bad hash would fail the command
	var places []int
	for i, h := range hashes {
		if out[i] = engine.StatusInvalid; goodHash(h) {
			good, places = append(good, h), append(places, i)
		}
	}
	for some := range slices.Chunk(good, hashesMax) {
		got, err := n.statuses(ctx, name, from, some)
		if err != nil {
			got = slices.Repeat([]engine.Status{statusOf(err, engine.StatusShed)}, len(some))
		}
		for j, st := range got {
			out[places[j]] = st
		}
		places = places[len(some):]
	}
	return out
}

func goodHash(h []byte) bool { return len(h) >= engine.MinHashBytes && len(h) <= engine.MaxHashBytes }

func (n *Namespace) statuses(ctx context.Context, name string, from chan *slot, hashes [][]byte) (out []engine.Status, err error) {
	err = n.with(ctx, from, true, func(c *conn, handle int64) error {
		cmd := hashCommand(name, handle, hashes)
		return c.do(ctx, cmd, func(a *answers) error {
			if err := a.listOf(len(hashes)); err != nil {
				return err
			}
			out = out[:0]
			for range hashes {
				st, err := a.status()
				if err != nil {
					return err
				}
				out = append(out, st)
			}
			return nil
		})
	})
	return out, err
}

func hashCommand(name string, handle int64, hashes [][]byte) *command {
	cmd := newCommand(name)
	cmd.int(handle)
	for _, h := range hashes {
		cmd.bytes(h)
	}
	return cmd
}

func (a *answers) status() (engine.Status, error) {
	word, err := a.text(answerLineMax)
	if err != nil {
		return 0, err
	}
	st, ok := wire.ParseStatus(word)
	if !ok {
		return 0, malformed("status %q", word[:min(len(word), 32)])
	}
	return st, nil
}

// Lease keeps the blocks of a match, see engine.Lease. It ends with its
// connection too.
type Lease struct {
	c        *Client
	conn     *conn
	ids      []int64
	blocks   int
	duration time.Duration
	release  sync.Once
}

// Blocks is the length of the longest stored prefix.
func (l *Lease) Blocks() int { return l.blocks }

// Duration is how long the lease lasts from the match or the last Renew on; 0
// if nothing was leased.
func (l *Lease) Duration() time.Duration { return l.duration }

// Match is that of engine.Namespace.
func (n *Namespace) Match(ctx context.Context, hashes [][]byte) (*Lease, error) {
	for _, h := range hashes {
		if !goodHash(h) {
			return nil, invalid(bytes.Clone(h), "hash of %d bytes: %d to %d are allowed", len(h), engine.MinHashBytes, engine.MaxHashBytes)
		}
	}
	ctx, cancel := n.c.bounded(ctx)
	defer cancel()
	l := &Lease{c: n.c}
	err := n.with(ctx, n.c.pool.asks, true, func(c *conn, handle int64) error {
		*l = Lease{c: n.c, conn: c}
		for some := range slices.Chunk(hashes, hashesMax) {
			before := l.blocks
			err := c.do(ctx, hashCommand("KV.MATCH", handle, some), func(a *answers) error { return l.read(a, len(some)) })
			if err != nil || l.blocks < before+len(some) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("client: match: %w", err)
	}
	return l, nil
}

func (l *Lease) read(a *answers, asked int) error {
	var three [3]int64
	err := a.listOf(len(three))
	for i := 0; err == nil && i < len(three); i++ {
		three[i], err = a.int()
	}
	if err == nil && (three[0] < 0 || three[0] > int64(asked)) {
		err = malformed("%d blocks matched of %d", three[0], asked)
	}
	if err != nil {
		return err
	}
	l.blocks += int(three[0])
	if three[1] != 0 {
		l.ids, l.duration = append(l.ids, three[1]), time.Duration(three[2])*time.Millisecond
	}
	return nil
}

// Renew begins the lease's time anew; false: it has ended, or the server did
// not say.
func (l *Lease) Renew(ctx context.Context) bool {
	ctx, cancel := l.c.bounded(ctx)
	defer cancel()
	return l.tell(ctx, "KV.RENEW")
}

// Release ends the lease. Releasing twice is nothing.
func (l *Lease) Release() {
	l.release.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), min(forgetTimeout, l.c.o.CallTimeout))
		defer cancel()
		l.tell(ctx, "KV.RELEASE")
	})
}

// tell speaks of the lease on its connection; on any other the server knows
// nothing of it.
func (l *Lease) tell(ctx context.Context, name string) (yes bool) {
	if len(l.ids) == 0 {
		return false
	}
	s, err := l.c.pool.take(ctx, l.c.pool.asks)
	if err != nil {
		return false
	}
	defer l.c.pool.give(l.c.pool.asks, s)
	if s.conn == nil || s.conn != l.conn {
		return false
	}
	yes = true
	for _, id := range l.ids {
		cmd := newCommand(name)
		cmd.int(id)
		err := s.conn.do(ctx, cmd, func(a *answers) error {
			n, err := a.int()
			yes = yes && n == 1
			return err
		})
		if err != nil {
			return false
		}
	}
	return yes
}
