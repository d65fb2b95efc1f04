package replay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealstone/sealstone/tools/internal/blockgen"
	"github.com/sealstone/sealstone/tools/internal/trace"
)

// observer is told what is asked of the store before and after it is asked.
// In the child it is the pipe to the parent.
type observer interface {
	putStart(request int, blocks []int) error
	putDone(request int, blocks []int, results []Result) error
}

// nobody is the observer of a replay in one process.
type nobody struct{}

func (nobody) putStart(int, []int) error          { return nil }
func (nobody) putDone(int, []int, []Result) error { return nil }

// worker replays requests one after another.
type worker struct {
	config Config
	trace  *trace.Trace
	store  Store
	gen    blockgen.Generator
	watch  observer

	buffer []byte // batchBlocks blocks
	free   func()
}

func newWorker(c Config, t *trace.Trace, s Store, watch observer) (*worker, error) {
	p, free, err := s.NewBuffer(int(c.BlockBytes) * c.batchBlocks())
	if err != nil {
		return nil, fmt.Errorf("replay: make a buffer: %w", err)
	}
	return &worker{c, t, s, blockgen.New(c.Seed), watch, p, free}, nil
}

// chain is a request's blocks as the store knows them.
type chain struct {
	refs   []blockgen.Ref
	hashes [][]byte
}

func chainOf(r trace.Request) chain {
	c := chain{make([]blockgen.Ref, len(r.IDs)), make([][]byte, len(r.IDs))}
	for i, id := range r.IDs {
		c.refs[i] = blockgen.Ref{Scope: r.Scope, ID: id}
		h := c.refs[i].Hash()
		c.hashes[i] = h[:]
	}
	return c
}

func (c chain) parent(i int) []byte {
	if i == 0 {
		return nil
	}
	return c.hashes[i-1]
}

// request replays one request. The error is of the observer or the context:
// whatever the store answers is part of the outcome.
func (w *worker) request(ctx context.Context, index int) (Outcome, error) {
	c := chainOf(w.trace.Requests[index])
	o := Outcome{Request: index, References: len(c.refs)}
	if len(c.refs) == 0 {
		return o, nil
	}
	begin := time.Now()
	matched, release, err := w.store.Match(ctx, c.hashes)
	o.Match = time.Since(begin)
	if err != nil {
		matched = 0
		o.MatchErrors++
		o.problem(fmt.Sprintf("request %d: match: %v", index, err))
	} else {
		defer release()
	}
	if matched > len(c.refs) {
		return o, fmt.Errorf("replay: request %d: a match of %d blocks in a chain of %d", index, matched, len(c.refs))
	}
	var rest []int
	for first := 0; first < matched; first += w.config.batchBlocks() {
		rest = append(rest, w.get(ctx, &o, c, first, min(first+w.config.batchBlocks(), matched))...)
	}
	for i := matched; i < len(c.refs); i++ {
		rest = append(rest, i)
	}
	for len(rest) > 0 {
		if err := ctx.Err(); err != nil {
			return o, err
		}
		n := min(len(rest), w.config.batchBlocks())
		if err := w.put(ctx, &o, c, rest[:n]); err != nil {
			return o, err
		}
		rest = rest[n:]
	}
	return o, ctx.Err()
}

func (w *worker) slot(i int) []byte {
	n := int(w.config.BlockBytes)
	return w.buffer[i*n : (i+1)*n : (i+1)*n]
}

// get reads the blocks [first, end) of the chain, compares them, and returns
// those that it did not get.
func (w *worker) get(ctx context.Context, o *Outcome, c chain, first, end int) (missed []int) {
	blocks := make([]Block, end-first)
	for i := range blocks {
		blocks[i] = Block{Hash: c.hashes[first+i], Data: w.slot(i)}
		poison(blocks[i].Data)
	}
	begin := time.Now()
	results := w.store.Get(ctx, blocks)
	o.Gets = append(o.Gets, time.Since(begin))
	for i, r := range judge(blocks, results) {
		count(&o.GetStatuses, r.Status)
		name := fmt.Sprintf("request %d block %d (id %d)", o.Request, first+i, c.refs[first+i].ID)
		if w.judgeGet(o, name, blocks[i].Data, r, c.refs[first+i]) {
			o.Hits++
		} else {
			missed = append(missed, first+i)
		}
	}
	return missed
}

// judgeGet compares what a get delivered with what the block consists of. It
// reports whether the block was a right hit.
func (w *worker) judgeGet(o *Outcome, name string, data []byte, r Result, ref blockgen.Ref) bool {
	if !r.OK {
		if bad := touched(data); bad > 0 {
			o.WrongBytes += bad
			o.problem(fmt.Sprintf("%s: %s, but %d bytes of the destination changed", name, r.Status, bad))
		}
		return false
	}
	o.VerifiedBytes += int64(len(data))
	if r.Bytes != int64(len(data)) {
		o.WrongBytes += int64(len(data))
		o.problem(fmt.Sprintf("%s: OK with %d bytes of %d", name, r.Bytes, len(data)))
		return false
	}
	if at, bad := w.gen.Compare(data, ref); bad > 0 {
		o.WrongBytes += bad
		o.problem(fmt.Sprintf("%s: OK with %d wrong bytes, the first at %d", name, bad, at))
		return false
	}
	return true
}

// put fills and stores the named blocks of the chain.
func (w *worker) put(ctx context.Context, o *Outcome, c chain, which []int) error {
	blocks := make([]Block, len(which))
	for i, at := range which {
		blocks[i] = Block{Hash: c.hashes[at], Parent: c.parent(at), Data: w.slot(i)}
		w.gen.Fill(blocks[i].Data, c.refs[at])
	}
	if err := w.watch.putStart(o.Request, which); err != nil {
		return err
	}
	begin := time.Now()
	results := judge(blocks, w.store.Put(ctx, blocks))
	o.Puts = append(o.Puts, time.Since(begin))
	for i, r := range results {
		count(&o.PutStatuses, r.Status)
		switch {
		case r.OK && r.Existed:
			o.Existed++
		case r.OK:
			o.Stored++
			o.PutBytes += int64(len(blocks[i].Data))
		case r.Shed:
			o.Shed++
		}
	}
	return w.watch.putDone(o.Request, which, results)
}

var errNoAnswer = errors.New("the store gave no result for this block")

// judge makes sure that there is one result per block: a missing one is a
// failure, not an oversight.
func judge(blocks []Block, results []Result) []Result {
	for len(results) < len(blocks) {
		results = append(results, Result{Status: "None", Err: errNoAnswer})
	}
	return results[:len(blocks)]
}

// poisonByte fills destinations, so that a byte that was never written is
// seen to be wrong.
const poisonByte = 0xa5

func poison(p []byte) {
	for i := range p {
		p[i] = poisonByte
	}
}

// touched counts the bytes that are neither poison nor zero.
func touched(p []byte) (bytes int64) {
	for _, b := range p {
		if b != poisonByte && b != 0 {
			bytes++
		}
	}
	return bytes
}
