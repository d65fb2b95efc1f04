package server

import (
	"context"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server/resp"
)

func init() {
	register(
		definition{name: "GET", argsMin: 2, argsMax: 2, rights: mayRead, keys: oneKey, do: func(c *conn, cmd *resp.Command) { c.answerView(c.view(cmd.Args[1])) }},
		definition{name: "MGET", argsMin: 2, rights: mayRead, keys: allKeys, do: mget},
		definition{name: "STRLEN", argsMin: 2, argsMax: 2, rights: mayRead, keys: oneKey, do: strlen},
	)
}

// answerView writes a value from where the store has verified it. Whatever is
// not a value is none: no error line, and never a part.
func (c *conn) answerView(v *engine.View) {
	if v == nil || v.Status != engine.StatusOK {
		c.out.Null()
		return
	}
	c.out.Lend(valueOf(v.Planes[0]), v)
}

// view reads the value of a key; nil is none.
func (c *conn) view(key []byte) *engine.View {
	v := c.views([][]byte{key})
	return &v[0]
}

// views reads values, one for each key, in order.
func (c *conn) views(keys [][]byte) []engine.View {
	out := make([]engine.View, len(keys))
	hashes := make([][]byte, 0, len(keys))
	places := make([]int, 0, len(keys))
	for i, k := range keys {
		out[i].Status = engine.StatusMiss
		if hash := c.readable(k); hash != nil {
			hashes = append(hashes, hash)
			places = append(places, i)
		}
	}
	if len(hashes) > 0 {
		// Who holds views and asks for more may wait for itself.
		if c.out.Lends() {
			_ = c.out.Flush()
		}
		_ = c.withPlain(func(ctx context.Context, n *engine.Namespace) bool {
			for i, v := range n.View(ctx, hashes, engine.ViewOptions{}) {
				if v.Status == engine.StatusStaleEpoch {
					return true
				}
				out[places[i]] = v
			}
			return false
		})
	}
	for i := range out {
		c.s.count.kinds[kindPlain].got(out[i].Status, out[i].VerifiedBytes)
	}
	return out
}

// got counts a value that was asked for.
func (k *kindCounters) got(st engine.Status, verifiedBytes int64) {
	k.gets.Add(1)
	switch st {
	case engine.StatusOK:
		k.hits.Add(1)
		k.bytesVerified.Add(verifiedBytes)
	case engine.StatusMiss, engine.StatusStaleEpoch:
		k.misses.Add(1)
	case engine.StatusCorrupt:
		k.corrupt.Add(1)
	default:
		k.failed.Add(1)
	}
}

const (
	// mgetBytes is about how much an MGET reads at a time.
	mgetBytes   = 8 << 20
	mgetKeysMax = 64
)

// mget reads a few values at a time: one to begin with, then as many as may
// come to mgetBytes, judged by the largest so far.
func mget(c *conn, cmd *resp.Command) {
	keys := cmd.Args[1:]
	c.out.Array(len(keys))
	largest := int64(mgetBytes)
	for len(keys) > 0 {
		n := min(int64(len(keys)), max(mgetBytes/largest, 1), mgetKeysMax)
		views := c.views(keys[:n])
		largest = 1
		for i := range views {
			largest = max(largest, views[i].VerifiedBytes)
			c.answerView(&views[i])
		}
		keys = keys[n:]
	}
}

// strlen reads the header of a value, and its beginning where that could be
// the mark of the empty value.
func strlen(c *conn, cmd *resp.Command) {
	length := int64(0)
	if hash := c.readable(cmd.Args[1]); hash != nil {
		_ = c.withPlain(func(ctx context.Context, n *engine.Namespace) bool {
			st := n.Stat(ctx, [][]byte{hash})[0]
			if st.Status == engine.StatusOK {
				length = c.lengthOf(ctx, n, hash, st.PlaneBytes[0])
			}
			return st.Status == engine.StatusStaleEpoch
		})
	}
	c.out.Int(length)
}

func (c *conn) lengthOf(ctx context.Context, n *engine.Namespace, hash []byte, storedBytes int64) int64 {
	mark := make([]byte, len(emptyMark))
	if storedBytes < int64(len(mark)) {
		return storedBytes
	}
	r := n.Get(ctx, []engine.GetBlock{{Hash: hash, Parts: []engine.Part{{Plane: valuePlane, LengthBytes: int64(len(mark)), Spans: [][]byte{mark}}}}}, engine.GetOptions{})[0]
	switch {
	case r.Status != engine.StatusOK:
		return 0 // lost meanwhile: a GET finds nothing either
	case string(mark) != string(emptyMark):
		return storedBytes
	case storedBytes == int64(len(mark)):
		return 0
	}
	return storedBytes - 1
}
