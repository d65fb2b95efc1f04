package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/disk"
)

// Get reads blocks, planes of blocks or byte ranges into the caller's memory
// and returns one result each, in order. Neighbours on disk are read together.
//
// Bytes are verified in memory of the store and only then copied, so on any
// status but OK the destination holds what it held before; with
// GetOptions.WaitForDevice it may hold zeros instead.
//
// When the context ends first, blocks not yet decided are Timeout; the
// destination is not touched after Get returned.
func (n *Namespace) Get(ctx context.Context, blocks []GetBlock, o GetOptions) []GetResult {
	out := make([]GetResult, len(blocks))
	g := &getBatch{n: n, s: n.s, o: o, blocks: blocks, out: out}
	g.call(ctx)
	return out
}

// call does the work of a batch, and gives a result to what it left open.
func (g *getBatch) call(ctx context.Context) {
	err := g.s.runFrom(ctx, g.s.slots, g.first(), g.run)
	for i := range g.out {
		r := &g.out[i]
		if r.Status == statusNone {
			st := statusOfGet(err)
			r.Status, r.Err = st, &BlockError{Status: st, Hash: g.blocks[i].Hash, Offset: -1, Err: err}
		}
		if g.heads == nil {
			g.s.count.get(r.Status)
			g.s.count.servedBytes.Add(r.Bytes)
		}
	}
}

// getParallel is how many blocks of one batch are read by themselves at a
// time.
const getParallel = 8

// getBatch is a read of many blocks under way. What becomes of a block that
// verified depends: it is copied to the caller's parts, or with lend the memory
// of the store is lent, or with heads its header alone is read.
type getBatch struct {
	n      *Namespace
	s      *Store
	op     *operation
	o      GetOptions
	blocks []GetBlock
	out    []GetResult // the caller's: only under op
	lend   *lending    // of a View
	heads  []BlockStat // of a Stat; the caller's, as out
	keys   []index.Key // the store's copies, as are the lists in wants
	wants  []want

	// What first has left: begun says that it looked the blocks up, atHost that
	// it asked the cache in memory for them.
	begun, atHost bool
	rest          []*want
}

func (g *getBatch) run(ctx context.Context, op *operation) {
	if g.op = op; !g.begun {
		found, ok := g.begin(ctx)
		if !ok {
			return
		}
		g.rest = g.sift(found)
	}
	if !g.atHost {
		g.rest = g.fromHost(g.rest)
	}
	g.readRest(ctx, g.rest)
}

// begin looks the blocks up; false: all are settled, or nobody waits for them.
func (g *getBatch) begin(ctx context.Context) (found []lookupResult, ok bool) {
	if !g.copyArguments() {
		return nil, false
	}
	found, refused := g.n.lookupGet(ctx, g.keys)
	if refused != nil {
		g.failAll(refused.Status, refused.Reason, refused.Err)
		return nil, false
	}
	return found, true
}

// lookupGet looks up the blocks of a get, or says why none of them is served.
func (n *Namespace) lookupGet(ctx context.Context, keys []index.Key) ([]lookupResult, *BlockError) {
	if h := n.s.health.get(); h.State == HealthAllMiss {
		return nil, &BlockError{Status: StatusMiss, Reason: fmt.Sprint("the store answers misses only: ", h.Reasons)}
	}
	if n.stale() {
		return nil, &BlockError{Status: StatusStaleEpoch, Reason: "open the namespace again", Err: ErrEpoch}
	}
	found, err := n.s.lookupHinted(ctx, keys, false)
	if err != nil {
		return nil, &BlockError{Status: unanswered(ctx, StatusMiss), Reason: "the index gives no answer", Err: err}
	}
	if n.stale() { // by now: what was found may be of the epoch after it
		return nil, &BlockError{Status: StatusStaleEpoch, Reason: "open the namespace again", Err: ErrEpoch}
	}
	n.noteLookup(found)
	return found, nil
}

// readFound reads what was found, and settles every block.
func (g *getBatch) readFound(ctx context.Context, found []lookupResult) {
	g.readRest(ctx, g.fromHost(g.sift(found)))
}

// readRest reads what is not in memory, and settles every block.
func (g *getBatch) readRest(ctx context.Context, rest []*want) {
	if g.lend != nil {
		rest = g.lend.reserve(ctx, g, rest)
		defer g.lend.end()
	}
	g.fetchAll(ctx, g.plan(rest))
	g.readAlone(ctx)
}

// copyArguments takes the lists of the caller while it is there.
func (g *getBatch) copyArguments() bool {
	if !g.op.enter() {
		return false
	}
	defer g.op.exit()
	g.keys = make([]index.Key, len(g.blocks))
	g.wants = make([]want, len(g.blocks))
	for i, b := range g.blocks {
		g.keys[i] = index.Key{Namespace: g.n.info.Number, Hash: string(b.Hash)}
		parts, guarded := make([]Part, len(b.Parts)), false
		for j, p := range b.Parts {
			p.Spans = append([][]byte(nil), p.Spans...)
			parts[j] = p
			guarded = guarded || g.s.memory.guards(p.Spans)
		}
		g.wants[i] = want{i: i, parts: parts, guarded: guarded}
	}
	return true
}

// sift settles what needs no read and returns the rest.
func (g *getBatch) sift(found []lookupResult) []*want {
	rest := make([]*want, 0, len(g.wants))
	for i := range g.wants {
		w := &g.wants[i]
		w.take(g, found[i])
		if err := g.check(w); err != nil {
			g.fail(w, StatusInvalid, "", err, false)
		}
	}
	g.checkOverlaps()
	for i := range g.wants {
		w := &g.wants[i]
		if !w.settled && !g.isAbsent(w) {
			rest = append(rest, w)
		}
	}
	return rest
}

// check tests what can be told without the block.
func (g *getBatch) check(w *want) error {
	if g.lend != nil || g.heads != nil {
		return checkHash([]byte(g.keys[w.i].Hash))
	}
	return checkGet(g.n, g.keys[w.i], w.parts)
}

// isAbsent settles a block that is not stored, or was found bad before.
func (g *getBatch) isAbsent(w *want) bool {
	switch {
	case w.found.bad:
		g.failAt(w, StatusCorrupt, "found bad before, quarantined", nil, false)
	case !w.found.ok:
		g.fail(w, StatusMiss, "", nil, false)
	}
	return w.settled
}

// settle gives a block its result. inside: the caller's memory is held
// already.
func (g *getBatch) settle(w *want, r GetResult, inside bool) {
	w.settled = true
	if !inside {
		if !g.op.enter() {
			return
		}
		defer g.op.exit()
	}
	g.out[w.i] = r
}

func (g *getBatch) fail(w *want, st Status, reason string, err error, inside bool) {
	hash := []byte(g.keys[w.i].Hash)
	var be *BlockError
	if !errors.As(err, &be) {
		be = &BlockError{Status: st, Offset: -1, Reason: reason, Err: err}
	}
	be.Hash = hash
	g.settle(w, GetResult{Status: be.Status, Err: be}, inside)
}

// failAt is fail for what lies on disk. An error that has a status keeps it.
func (g *getBatch) failAt(w *want, st Status, reason string, err error, inside bool) {
	var be *BlockError
	if errors.As(err, &be) {
		g.fail(w, st, reason, err, inside)
		return
	}
	at := w.found.entry.Address
	g.fail(w, st, "", &BlockError{Status: st, File: disk.SegmentName(at.Segment), Offset: at.Offset(), Reason: reason, Err: err}, inside)
}

func (g *getBatch) failAll(st Status, reason string, err error) {
	for i := range g.wants {
		g.fail(&g.wants[i], st, reason, err, false)
	}
}

// failed settles a block whose read failed.
func (g *getBatch) failed(w *want, err error, inside bool) {
	switch {
	case errors.Is(err, ErrCorrupt):
		g.s.quarantine(g.keys[w.i], w.found.entry, err.Error())
		g.fail(w, StatusCorrupt, "", err, inside)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		g.fail(w, StatusTimeout, "", err, inside)
	case errors.Is(err, aligned.ErrExhausted), errors.Is(err, tiers.ErrBusy), errors.Is(err, aligned.ErrTooLarge):
		g.fail(w, StatusMiss, "a limit of the store was reached", err, inside)
	case errors.Is(err, ErrClosed), errors.Is(err, tiers.ErrClosed):
		g.fail(w, StatusClosed, "", err, inside)
	default:
		g.failAt(w, StatusIOError, "the data are kept; it may be tried again", err, inside)
	}
}

// readAlone reads by themselves the blocks that the plan left out, or whose
// planned read did not bring them.
func (g *getBatch) readAlone(ctx context.Context) {
	var wg sync.WaitGroup
	turns := make(chan struct{}, getParallel)
	for i := range g.wants {
		w := &g.wants[i]
		if w.settled {
			continue
		}
		if err := ctx.Err(); err != nil { // nobody waits for it any more
			g.failed(w, err, false)
			continue
		}
		g.s.count.readAlone.Add(1)
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			g.one(ctx, w)
		})
	}
	wg.Wait()
}

// one answers one block. A block whose segment goes away under it is looked
// up again: it was moved, or evicted.
func (g *getBatch) one(ctx context.Context, w *want) {
	const triesMax = 4
	for range triesMax {
		if g.isAbsent(w) {
			return
		}
		err := g.read(ctx, w)
		switch {
		case err == nil:
			return
		case errors.Is(err, errNeedsRoom): // it is known by now, and taken with the next read
			continue
		case errors.Is(err, ErrCorrupt) && w.leaveOwnPage():
			continue
		case !errors.Is(err, disk.ErrNoSegment):
			g.failed(w, err, false)
			return
		}
		again, err := g.s.lookup(ctx, g.keys[w.i:w.i+1], false)
		if err != nil {
			g.fail(w, unanswered(ctx, StatusMiss), "the index gives no answer", err, false)
			return
		}
		at := w.found.entry.Address
		w.take(g, again[0])
		if w.found.ok && w.found.entry.Address == at && !g.s.isGoing(at.Segment) {
			if w.leaveOwnPage() {
				continue
			}
			g.gone(w)
			return
		}
	}
	g.fail(w, StatusMiss, "the block moved on faster than it could be read", nil, false)
}

// isGoing reports whether a segment is being evicted, or was.
func (s *Store) isGoing(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg := s.segs[id]
	return seg == nil || seg.victim
}
