package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/host"
	"github.com/sealstone/sealstone/wal"
)

// Put stores a batch of blocks and returns one result each, in order. A block
// that is OK survives the end of the process from then on, with
// PutOptions.Durable a power cut too. A key that is stored already is OK with
// Existed set, and nothing is written; the first put wins.
//
// When the context ends first, blocks not yet decided are Timeout: unknown,
// later wholly visible or not at all. The store never reads the blocks'
// memory after Put returned.
func (n *Namespace) Put(ctx context.Context, blocks []PutBlock, o PutOptions) []PutResult {
	out := make([]PutResult, len(blocks))
	p := &putBatch{n: n, s: n.s, o: o, blocks: blocks, out: out}
	err := n.s.run(ctx, n.s.slots, p.run)
	for i := range out {
		r := &out[i]
		if r.Status == statusNone {
			r.Status, r.Err = statusOfRun(err), &BlockError{Status: statusOfRun(err), Hash: blocks[i].Hash, Offset: -1, Err: err}
		}
		n.s.count.put(r.Status)
	}
	return out
}

func statusOfRun(err error) Status {
	var left errLeft
	switch {
	case errors.Is(err, ErrClosed):
		return StatusClosed
	case errors.As(err, &left):
		return StatusTimeout
	case errors.Is(err, ErrShed):
		return StatusShed
	}
	return StatusIOError
}

// statusOfGet is statusOfRun for a read: what was not tried is a miss.
func statusOfGet(err error) Status {
	if st := statusOfRun(err); st != StatusShed {
		return st
	}
	return StatusMiss
}

// inflightPut marks a key whose put is under way; done is closed at its end.
type inflightPut struct {
	done chan struct{}
	ok   bool
}

// putBatch is a put under way.
type putBatch struct {
	n      *Namespace
	s      *Store
	op     *operation
	o      PutOptions
	blocks []PutBlock
	out    []PutResult // the caller's: only under op
	items  []*putItem
	// writing are on their way to the device, in order; written are not
	// logged yet, logged are not answered yet.
	writing         []*groupWrite
	written, logged []*putItem
	writtenBytes    int64
}

// putItem is one block of a batch that is not decided yet.
type putItem struct {
	i      int // in the batch
	key    index.Key
	mine   *inflightPut // registered by us
	theirs *inflightPut // registered by another put: wait for it
	twin   *putItem     // an earlier block of this batch has the same key
	planes []PlaneData
	parent index.Key
	depth  uint32

	guarded bool                  // some of the caller's memory may go away
	gone    atomic.Pointer[error] // it did: what the block is answered

	budgeted int64 // taken from the write budget
	sent     bool  // to the device, whatever came of it

	img    *image
	charge charge        // of the tenant, until the record has it
	draft  *host.Block   // on its way into the cache in memory
	target *index.Extent // shared instead of written
	shared *segment      // whose extent that is, held as a guest
	placed placed        // set when it is written, or err is
	err    error
	rec    *record
	end    wal.LSN // of its group, once logged
	status Status
}

// settle decides a block; the first decision stands.
func (p *putBatch) settle(it *putItem, r PutResult) {
	it.status = r.Status
	it.dropDraft() // what is visible has entered the cache
	p.uncharge(it)
	if !p.op.enter() {
		return
	}
	defer p.op.exit()
	if p.out[it.i].Status == statusNone {
		p.out[it.i] = r
	}
}

func (p *putBatch) fail(it *putItem, st Status, reason string, err error) {
	var be *BlockError
	if !errors.As(err, &be) {
		be = &BlockError{Status: st, Hash: []byte(it.key.Hash), Offset: -1, Reason: reason, Err: err}
	}
	if !it.sent || be.Status == StatusShed {
		p.s.budget.giveBack(it.budgeted)
		it.budgeted = 0
	}
	p.settle(it, PutResult{Status: be.Status, Err: be})
}

func (p *putBatch) failAll(items []*putItem, st Status, reason string, err error) {
	for _, it := range items {
		p.fail(it, st, reason, err)
	}
}

func (p *putBatch) run(ctx context.Context, op *operation) {
	p.op = op
	if !p.prepare() {
		return
	}
	// What another put has under way is waited for only when nothing of ours
	// is: two batches that waited for each other would wait for ever.
	todo := p.items
	for len(todo) > 0 {
		mine, waiting := p.admit(ctx, todo)
		p.store(ctx, mine)
		p.release(mine)
		todo = p.await(ctx, waiting)
	}
}

// prepare checks the arguments; it is the only part that looks at the
// caller's lists, the bytes are read in build.
func (p *putBatch) prepare() bool {
	if !p.op.enter() {
		return false
	}
	blocks := make([]PutBlock, len(p.blocks))
	for i := range p.blocks {
		blocks[i] = p.blocks[i].copyLists()
	}
	p.op.exit()
	p.blocks = blocks
	stale := p.n.stale()
	notWritable := p.s.writable()
	first := map[index.Key]*putItem{}
	for i := range blocks {
		b := &blocks[i]
		it := &putItem{i: i, key: index.Key{Namespace: p.n.info.Number, Hash: string(b.Hash)}}
		switch planes, err := p.n.checkPut(b); {
		case err != nil:
			p.fail(it, StatusInvalid, "", err)
		case stale:
			p.fail(it, StatusStaleEpoch, "open the namespace again", ErrEpoch)
		case notWritable != nil:
			p.fail(it, shedStatus(notWritable), "", notWritable)
		default:
			it.planes = planes
			it.guarded = slices.ContainsFunc(planes, func(d PlaneData) bool { return p.s.memory.guards(d.Spans) })
			it.parent = index.Key{Namespace: it.key.Namespace, Hash: string(b.Parent)}
			it.twin = first[it.key]
			if it.twin == nil {
				first[it.key] = it
			}
			p.items = append(p.items, it)
		}
	}
	return len(p.items) > 0
}

// copyLists copies all of a block but the planes' bytes: the caller may use
// its lists again as soon as it left.
func (b *PutBlock) copyLists() PutBlock {
	c := PutBlock{Hash: bytes.Clone(b.Hash), Parent: bytes.Clone(b.Parent), PlainKey: bytes.Clone(b.PlainKey), Planes: slices.Clone(b.Planes)}
	for i := range c.Planes {
		c.Planes[i].Spans = slices.Clone(c.Planes[i].Spans)
	}
	c.Seal = b.Seal.clone()
	return c
}

func shedStatus(err error) Status {
	if errors.Is(err, ErrClosed) {
		return StatusClosed
	}
	return StatusShed
}

func (n *Namespace) checkPut(b *PutBlock) ([]PlaneData, error) {
	if err := checkHashes(b.Hash, b.Parent); err != nil {
		return nil, err
	}
	if err := checkPlainKey(b); err != nil {
		return nil, err
	}
	planes, err := n.planesInOrder(b)
	if err != nil {
		return nil, err
	}
	sizes := make([]int64, len(planes))
	for i := range planes {
		sizes[i] = spanBytes(planes[i].Spans)
	}
	return planes, n.checkSizes(b.Hash, sizes)
}

// checkSizes tests the sizes of a block's planes, in the order of the layout.
func (n *Namespace) checkSizes(hash []byte, sizes []int64) error {
	total := int64(0)
	for i, size := range sizes {
		if size == 0 {
			return &BlockError{Status: StatusInvalid, Hash: hash, Offset: -1,
				Reason: fmt.Sprintf("plane %q is empty: a block's planes hold at least 1 byte each", n.layout.Planes[i].Name)}
		}
		total += size
	}
	if total > n.s.o.MaxBlockBytes {
		return &BlockError{Status: StatusTooLarge, Hash: hash, Offset: -1,
			Reason: fmt.Sprintf("%d bytes, the limit (MaxBlockBytes) is %d", total, n.s.o.MaxBlockBytes)}
	}
	return nil
}

func checkHashes(hash, parent []byte) error {
	if err := checkHash(hash); err != nil || len(parent) == 0 {
		return err
	}
	return checkHash(parent)
}

func checkHash(h []byte) error {
	if len(h) < MinHashBytes || len(h) > MaxHashBytes {
		return &BlockError{Status: StatusInvalid, Hash: h, Offset: -1,
			Reason: fmt.Sprintf("hash of %d bytes: %d to %d are allowed", len(h), MinHashBytes, MaxHashBytes)}
	}
	return nil
}

// admit registers the keys that nobody has under way and drops those that are
// stored already (rule admit). It returns ours, and those to wait for.
func (p *putBatch) admit(ctx context.Context, items []*putItem) (mine, waiting []*putItem) {
	s := p.s
	s.mu.Lock()
	for _, it := range items {
		it.theirs = s.inflight[it.key]
		switch {
		case it.twin != nil || it.theirs != nil:
			waiting = append(waiting, it)
		default:
			it.mine = &inflightPut{done: make(chan struct{})}
			s.inflight[it.key] = it.mine
			mine = append(mine, it)
		}
	}
	s.mu.Unlock()
	if len(mine) == 0 {
		return nil, waiting
	}
	// Only now the lookup: a put of the key that ended before we registered
	// is in the overlay or, once it left that, in the index.
	keys := make([]index.Key, 0, 2*len(mine))
	for _, it := range mine {
		keys = append(keys, it.key)
	}
	for _, it := range mine {
		if it.parent.Hash != "" {
			keys = append(keys, it.parent)
		}
	}
	found, err := s.lookup(ctx, keys, false)
	if err != nil {
		for _, it := range mine {
			p.fail(it, unanswered(ctx, StatusShed), "the index gives no answer", err)
		}
		p.release(mine)
		return nil, waiting
	}
	p.depths(mine, found[len(mine):])
	kept := mine[:0]
	for i, it := range mine {
		if found[i].ok {
			p.existed(it, found[i].entry)
			p.releaseOne(it)
			continue
		}
		if !s.admitted(it) {
			p.fail(it, StatusShed, "not admitted yet: the admission filter or the write budget", ErrShed)
			p.releaseOne(it)
			continue
		}
		kept = append(kept, it)
	}
	return kept, waiting
}

// depths finds how far each block is from the root of its prefix, and marks
// parents as used: a chain that grows is alive.
func (p *putBatch) depths(mine []*putItem, parents []lookupResult) {
	inBatch := map[index.Key]uint32{}
	next := 0
	for _, it := range mine {
		if it.parent.Hash != "" {
			r := parents[next]
			next++
			switch d, ok := inBatch[it.parent]; {
			case r.ok:
				it.depth = r.entry.Depth + 1
				p.s.used.mark(r.entry.Address)
			case ok:
				it.depth = d + 1
			default:
				p.s.count.unreachable.Add(1)
			}
		}
		inBatch[it.key] = it.depth
	}
}

// existed settles a put of a stored key. The content is compared by id: with
// GPU numerics it may differ from run to run, which is information.
func (p *putBatch) existed(it *putItem, e index.Entry) {
	s := p.s
	s.used.mark(e.Address)
	r := PutResult{Status: StatusOK, Existed: true}
	buf, err := p.buildAlone(it)
	if errors.Is(err, ErrMemoryGone) {
		p.fail(it, StatusInvalid, "", err)
		return
	}
	if err == nil {
		r.Differs = index.TagOf(it.img.ext.ContentID) != e.Content
		sealErr := it.img.checkSeal(&p.blocks[it.i])
		buf.Free()
		if sealErr != nil {
			p.fail(it, StatusCorrupt, "", sealErr)
			return
		}
	}
	s.count.putExisted.Add(1)
	if r.Differs && s.count.putDiffers.Add(1)&1023 == 1 {
		s.event(EventDiffers, "put of stored block %x has other content; the stored one stays (one event in 1024)", it.key.Hash)
	}
	s.mu.Lock()
	r.Durable = e.Seq != 0 && s.durableLocked(it.key)
	s.mu.Unlock()
	p.settle(it, r)
}

const (
	// groupRecordsMax bounds the records of a put that are logged as one
	// group, far below what a log file holds.
	groupRecordsMax = 128
	// groupBytesMax bounds their extents: what is written and not logged
	// counts against no limit yet.
	groupBytesMax = 64 << 20
)

// store writes the extents, then logs all of them in one group (in several,
// where they are many or segments fill up in between).
func (p *putBatch) store(ctx context.Context, mine []*putItem) {
	for todo := mine; len(todo) > 0; {
		var g *putGroup
		if g, todo = p.nextGroup(ctx, todo); g == nil {
			continue
		}
		g.last = len(todo) == 0
		p.place(ctx, g, p.prepareGroup(g))
		g.release()
	}
	p.reap(0)
	p.commitWritten()
	logged := p.logged
	p.logged = nil
	if len(logged) == 0 {
		return
	}
	var err error
	if p.o.Durable {
		err = p.s.waitDurable(ctx, logged[len(logged)-1].end)
	}
	for _, it := range logged {
		if err != nil {
			p.fail(it, unknownStatus(err), "stored, and not known to be durable", err)
			continue
		}
		p.settle(it, PutResult{Status: StatusOK, Shared: it.rec.Entry.IsAlias(), Durable: p.o.Durable, WrittenBytes: it.placed.extent.Bytes()})
	}
}

func (p *putBatch) commitWritten() {
	written := p.written
	p.written, p.writtenBytes = nil, 0
	p.logged = append(p.logged, p.commit(written)...)
}

func putStatus(err error) Status {
	switch {
	case errors.Is(err, ErrShed), errors.Is(err, ErrReadOnly), errors.Is(err, tiers.ErrBusy):
		return StatusShed
	case errors.Is(err, ErrClosed):
		return StatusClosed
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return StatusTimeout
	}
	return StatusIOError
}

// unknownStatus is that of what was logged already when it failed: it may be
// there later or not, and is not refused.
func unknownStatus(err error) Status {
	if st := putStatus(err); st == StatusTimeout {
		return st
	}
	return StatusIOError
}

func (p *putBatch) release(items []*putItem) {
	for _, it := range items {
		p.releaseOne(it)
	}
}

// releaseOne ends the registration of a key and wakes who waits for it.
func (p *putBatch) releaseOne(it *putItem) {
	if it.mine == nil {
		return
	}
	s := p.s
	s.mu.Lock()
	it.mine.ok = it.status == StatusOK
	delete(s.inflight, it.key)
	s.mu.Unlock()
	close(it.mine.done)
	it.mine = nil
}

// await waits for other puts of the same keys. After one that failed, ours
// tries for itself.
func (p *putBatch) await(ctx context.Context, items []*putItem) (again []*putItem) {
	for _, it := range items {
		if it.twin != nil {
			twin := it.twin
			it.twin = nil
			// A seal that did not match says nothing of our bytes.
			if st := twin.status; st != StatusOK && st != StatusCorrupt && st != StatusLengthMismatch {
				p.copyOutcome(it, twin)
				continue
			}
			again = append(again, it) // it exists now, or is ours to store
			continue
		}
		select {
		case <-it.theirs.done:
			again = append(again, it)
		case <-ctx.Done():
			p.fail(it, StatusTimeout, "another put of this block is under way", ctx.Err())
		}
	}
	return again
}

func (p *putBatch) copyOutcome(it, twin *putItem) {
	if !p.op.enter() {
		return
	}
	r := p.out[twin.i]
	p.op.exit()
	if r.Status == statusNone {
		r = PutResult{Status: StatusShed}
	}
	p.settle(it, r)
}
