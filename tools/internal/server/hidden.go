package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sealstone/sealstone/engine"
)

// hidden are the plain keys whose stored value is not to be read any more,
// though it is there: a set was answered with OK and shed, and the store could
// not log the removal of what was there before. They are kept in memory alone,
// until the removal is logged.
//
// Past the bound the tenant is blind: every plain key of it is a miss, until a
// new epoch of its keys is logged.
type hidden struct {
	max   int
	many  atomic.Int64 // keys and blind tenants: 0 lets all else be skipped
	total atomic.Int64
	blown atomic.Int64 // tenants that became blind

	mu     sync.Mutex
	keys   map[hiddenKey]struct{}
	blind  map[string]struct{}
	runs   bool // the goroutine that removes them
	closed bool
	life   context.Context
	stop   context.CancelFunc
	done   sync.WaitGroup
}

type hiddenKey struct {
	tenant string
	hash   string
}

func newHidden(max int) *hidden {
	h := &hidden{max: max, keys: map[hiddenKey]struct{}{}, blind: map[string]struct{}{}}
	h.life, h.stop = context.WithCancel(context.Background())
	return h
}

// has reports whether a key is to answer as if it were gone. Ask before the
// store is asked: what is hidden later was read at the same time.
func (h *hidden) has(tenant string, hash []byte) bool {
	if h.many.Load() == 0 {
		return false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	_, blind := h.blind[tenant]
	_, found := h.keys[hiddenKey{tenant, string(hash)}]
	return blind || found
}

// add hides a key; with the lock of its stripe.
func (h *hidden) add(tenant string, hash []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer h.countLocked()
	k := hiddenKey{tenant, string(hash)}
	_, known := h.keys[k]
	if _, blind := h.blind[tenant]; known || blind {
		return
	}
	h.total.Add(1)
	if len(h.keys) < h.max {
		h.keys[k] = struct{}{}
		return
	}
	h.blown.Add(1)
	h.blind[tenant] = struct{}{}
	h.forgetLocked(tenant) // the new epoch removes them all
}

// remove lets a key be read again; with the lock of its stripe.
func (h *hidden) remove(tenant string, hash []byte) {
	if h.many.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.keys, hiddenKey{tenant, string(hash)})
	h.countLocked()
}

// see ends a tenant's blindness.
func (h *hidden) see(tenant string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.blind, tenant)
	h.countLocked()
}

func (h *hidden) forgetLocked(tenant string) {
	for k := range h.keys {
		if k.tenant == tenant {
			delete(h.keys, k)
		}
	}
}

func (h *hidden) countLocked() { h.many.Store(int64(len(h.keys) + len(h.blind))) }

// counts is how much is hidden now.
func (h *hidden) counts() (keys, blind int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.keys), len(h.blind)
}

// left is what is hidden now.
func (h *hidden) left() (keys []hiddenKey, blind []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for k := range h.keys {
		keys = append(keys, k)
	}
	for tenant := range h.blind {
		blind = append(blind, tenant)
	}
	return keys, blind
}

// begins reports whether the caller is to start the goroutine that removes what
// is hidden; rests, called by that one, whether it may end.
func (h *hidden) begins() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.runs || h.closed {
		return false
	}
	h.runs = true
	h.done.Add(1)
	return true
}

func (h *hidden) rests() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs = len(h.keys)+len(h.blind) > 0
	return !h.runs
}

// close ends the goroutine and waits for it.
func (h *hidden) close() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.stop()
	h.done.Wait()
}

// hide makes a key answer as if it were gone until its removal is logged.
func (s *Server) hide(tenant string, hash []byte) {
	s.hidden.add(tenant, hash)
	if s.hidden.begins() {
		go s.removeHidden()
	}
}

const (
	// hiddenPause is the time between two tries to remove what is hidden.
	hiddenPause = 250 * time.Millisecond
	// hiddenLast bounds the try of a server that stops.
	hiddenLast = 2 * time.Second
)

// removeHidden tries until nothing is hidden, or the server stops; then once
// more, as nothing is hidden from the next process.
func (s *Server) removeHidden() {
	defer s.hidden.done.Done()
	h := s.hidden
	for {
		s.removeHiddenOnce(h.life, s.o.RequestTimeout)
		if h.rests() {
			return
		}
		select {
		case <-h.life.Done():
			s.removeHiddenOnce(context.WithoutCancel(h.life), hiddenLast)
			h.rests()
			return
		case <-time.After(hiddenPause):
		}
	}
}

// removeHiddenOnce stops at the first that the store can not take.
func (s *Server) removeHiddenOnce(life context.Context, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(life, timeout)
	defer cancel()
	keys, blind := s.hidden.left()
	for _, tenant := range blind {
		if !s.beginEpoch(ctx, tenant) {
			return
		}
	}
	type group struct {
		tenant string
		stripe *sync.Mutex
	}
	groups := map[group][][]byte{}
	for _, k := range keys {
		g := group{k.tenant, s.overwrites.of(k.tenant, []byte(k.hash))}
		groups[g] = append(groups[g], []byte(k.hash))
	}
	for g, hashes := range groups {
		if !s.removeGroup(ctx, g.tenant, g.stripe, hashes) {
			return
		}
	}
}

// beginEpoch makes all plain keys of a tenant misses for good.
func (s *Server) beginEpoch(ctx context.Context, tenant string) bool {
	n, err := s.spaces.plainOf(ctx, tenant)
	if err != nil {
		return false
	}
	_, err = n.BumpEpoch(ctx)
	s.spaces.forget(tenant, n)
	if err == nil {
		s.hidden.see(tenant)
	}
	return err == nil
}

// removeGroup drops keys of one stripe: nobody else sets or drops them
// meanwhile, so that no newer value is dropped.
func (s *Server) removeGroup(ctx context.Context, tenant string, stripe *sync.Mutex, hashes [][]byte) bool {
	stripe.Lock()
	defer stripe.Unlock()
	var still [][]byte
	for _, hash := range hashes {
		if s.hidden.has(tenant, hash) {
			still = append(still, hash)
		}
	}
	n, err := s.spaces.plainOf(ctx, tenant)
	if err != nil {
		return false
	}
	all := true
	for i, r := range n.Drop(ctx, still) {
		switch r.Status {
		case engine.StatusOK, engine.StatusMiss:
			s.hidden.remove(tenant, still[i])
		case engine.StatusStaleEpoch: // the next try has the new one
			s.spaces.forget(tenant, n)
			all = false
		default:
			all = false
		}
	}
	return all
}
