package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// view looks at a block for a while: what it shows is one put's bytes from the
// beginning to the release, whatever happens to the block meanwhile.
func (a *arena) view(key int) {
	a.note(call{kind: callGet, key: key}, func(c *call) {
		v := viewOne(a.space.Load(), hashOf(key))
		c.status = v.Status
		a.want(c, v.Err, StatusOK, StatusMiss)
		if v.Status != StatusOK {
			if v.Planes != nil || v.held != nil {
				a.t.Errorf("view of %d: %s, and it lends something", key, v.Status)
			}
			return
		}
		p := bytes.Join(v.Planes, nil)
		c.version = int(binary.LittleEndian.Uint64(p))
		for range 3 {
			if !bytes.Equal(bytes.Join(v.Planes, nil), arenaBytes(key, c.version)) {
				a.t.Errorf("view of %d: WRONG BYTES with status OK", key)
			}
			runtime.Gosched()
		}
		v.Release()
	})
}

// statusesOf is Stat as the other questions answer.
func statusesOf(n *Namespace, hashes [][]byte) []Status {
	out := make([]Status, len(hashes))
	for i, st := range n.Stat(context.Background(), hashes) {
		out[i] = st.Status
	}
	return out
}

// list asks whether a block is among those of the namespace.
func (a *arena) list(key int) {
	a.note(call{kind: callGet, key: key}, func(c *call) {
		keys, next, err := a.space.Load().Keys(context.Background(), nil, 10)
		c.status = StatusMiss
		switch {
		case errors.Is(err, ErrClosed):
			c.status = StatusClosed
		case errors.Is(err, ErrEpoch):
			c.status = StatusStaleEpoch
		case err != nil || next != nil:
			c.status = StatusIOError
		}
		for _, k := range keys {
			if bytes.Equal(k.Hash, hashOf(key)) {
				c.status = StatusOK
			}
		}
		a.want(c, err, StatusOK, StatusMiss)
	})
}

// TestFaultViewMemory: many callers look at blocks for as long as they like,
// under a bound that is small, while others get and put; contexts end. All that
// is shown is right, and all memory is back at the end.
func TestFaultViewMemory(t *testing.T) {
	checkLeaks(t)
	rounds := 150
	if testing.Short() {
		rounds = 30
	}
	s, n := tightView(t, vfs.NewMem())
	defer mustClose(t, s)
	mustFlush(t, s)
	var wg sync.WaitGroup
	for w := range 6 {
		rng := rand.New(rand.NewPCG(1, uint64(w)))
		wg.Go(func() {
			for range rounds {
				if err := lookAtSome(n, rng); err != nil {
					t.Error(err)
				}
			}
		})
	}
	for w := range 2 {
		wg.Go(func() {
			for i := range rounds {
				id := 100 + w*rounds + i
				if r := putOne(n, blockOf(id, 0, 5000)); r.Status == StatusOK {
					n.Drop(context.Background(), hashesOf(id))
				}
				p, b := getParts(i%12, tightSize)
				r := n.Get(context.Background(), []GetBlock{b}, GetOptions{})[0]
				if r.Status != StatusOK || !bytes.Equal(p, contentOf(i%12, 0, tightSize)) {
					t.Errorf("get %d: %v %v", i%12, r.Status, r.Err)
				}
			}
		})
	}
	wg.Wait()
	if most := s.lent.mostBytes.Load(); most > s.lent.maxBytes || most == 0 {
		t.Errorf("%d bytes were lent at a time, %d may be", most, s.lent.maxBytes)
	}
	wantAllReleased(t, s)
}

// lookAtSome views some blocks with a context that may end, and releases them
// in any order.
func lookAtSome(n *Namespace, rng *rand.Rand) error {
	ctx, cancel := context.WithCancel(context.Background())
	if rng.IntN(4) == 0 {
		go cancel()
	}
	defer cancel()
	ids := rng.Perm(14)[:1+rng.IntN(7)] // 12 and 13 are absent
	views := n.View(ctx, hashesOf(ids...), ViewOptions{})
	var wrong error
	for _, i := range rng.Perm(len(views)) {
		v := &views[i]
		switch {
		case v.Status == StatusOK && bytes.Equal(bytes.Join(v.Planes, nil), contentOf(ids[i], 0, tightSize)):
		case v.Status == StatusTimeout || v.Status == StatusMiss && (ids[i] >= 12 || errors.Is(v.Err, ErrShed)):
			if v.Planes != nil {
				wrong = fmt.Errorf("block %d: %v, and %d planes are lent", ids[i], v.Status, len(v.Planes))
			}
		default:
			wrong = fmt.Errorf("block %d: %v %w", ids[i], v.Status, v.Err)
		}
		v.Release()
	}
	return wrong
}
