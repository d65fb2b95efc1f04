package server

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"

	"github.com/sealstone/sealstone/engine"
)

// keyBytesMax is the longest plain key; longer ones are never stored.
const keyBytesMax = 512

// valuePlane is the plane of the layout of plain keys.
const valuePlane = "value"

// keepable reports whether a key can be stored at all. One that can not is
// always a miss: clients that mistake an error line for an answer lose their
// place in the stream.
func keepable(key []byte) bool { return len(key) > 0 && len(key) <= keyBytesMax }

// readable is the hash of a key whose value may be read, or nil.
func (c *conn) readable(key []byte) []byte {
	if !keepable(key) {
		return nil
	}
	hash := engine.KeyHash(key)
	if c.s.hidden.has(c.who.Tenant, hash) {
		return nil
	}
	return hash
}

// withPlain does work on the namespace of the peer's plain keys, again with a
// new handle where the epoch has moved on.
func (c *conn) withPlain(work func(ctx context.Context, n *engine.Namespace) (stale bool)) error {
	ctx, cancel := c.context()
	defer cancel()
	for range 3 {
		n, err := c.s.spaces.plainOf(ctx, c.who.Tenant)
		if err != nil {
			return fmt.Errorf("server: plain keys of tenant %q: %w", c.who.Tenant, err)
		}
		if !work(ctx, n) {
			return nil
		}
		c.s.spaces.forget(c.who.Tenant, n)
	}
	return errors.New("server: the epoch moves on faster than a command is done")
}

// eachPlain is withPlain for an answer per key. Keys that can not be kept, those
// that are hidden, and all where the store answers nothing, are StatusMiss.
func (c *conn) eachPlain(keys [][]byte, ask func(ctx context.Context, n *engine.Namespace, hashes [][]byte) []engine.Status) []engine.Status {
	out := make([]engine.Status, len(keys))
	var hashes [][]byte
	var places []int
	for i, k := range keys {
		out[i] = engine.StatusMiss
		if hash := c.readable(k); hash != nil {
			hashes = append(hashes, hash)
			places = append(places, i)
		}
	}
	if len(hashes) == 0 {
		return out
	}
	_ = c.withPlain(func(ctx context.Context, n *engine.Namespace) bool {
		for i, st := range ask(ctx, n, hashes) {
			if st == engine.StatusStaleEpoch {
				return true
			}
			out[places[i]] = st
		}
		return false
	})
	return out
}

// isStale reports whether an answer came from before the epoch's last move.
func isStale(err error) bool { return errors.Is(err, engine.ErrEpoch) }

// overwriteLocks keep sets apart that put another value in the place of the
// same one: each is a drop and a put, and two of them could undo each other.
type overwriteLocks struct {
	seed    maphash.Seed
	stripes [64]sync.Mutex
}

func (o *overwriteLocks) of(tenant string, hash []byte) *sync.Mutex {
	var h maphash.Hash
	h.SetSeed(o.seed)
	_, _ = h.WriteString(tenant)
	_ = h.WriteByte(0)
	_, _ = h.Write(hash)
	return &o.stripes[h.Sum64()%uint64(len(o.stripes))]
}
