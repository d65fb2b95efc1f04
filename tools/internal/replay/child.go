package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/blockgen"
	"github.com/sealstone/sealstone/tools/internal/trace"
)

// RunChild is the store's side of a replay with a kill. It reads the Config
// that the parent writes to in, replays from the first request on, and tells
// the parent on out what it asks of the store and what was answered. When all
// is done it waits to be killed. It ends by itself only on an error, or when
// in ends, which is how the parent's death shows.
func RunChild(ctx context.Context, in io.Reader, out io.Writer, open func(context.Context, Config) (Store, error)) error {
	decoder := json.NewDecoder(in)
	var c Config
	if err := decoder.Decode(&c); err != nil {
		return fmt.Errorf("replay: read the configuration from the parent: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		io.Copy(io.Discard, in)
		cancel()
	}()
	c.Open = open
	ch := &child{ctx: ctx, out: json.NewEncoder(out)}
	err := ch.run(ctx, c)
	if err == nil {
		return nil
	}
	told := message{Kind: msgError, Text: err.Error(), Locked: errors.Is(err, engine.ErrLocked)}
	if ch.send(told) == nil {
		return fmt.Errorf("%w: %w", ErrReported, err)
	}
	return err
}

// ErrReported: the parent knows of the error that this wraps.
var ErrReported = errors.New("replay: told the parent")

// child tells the parent what happens. It is the observer of its replay.
type child struct {
	ctx    context.Context
	config Config
	trace  *trace.Trace
	last   map[blockgen.Ref]int // last request by block
	store  Store

	// order is held shared from the announcement of a put to that of its
	// answer, and alone during a drop: so the parent knows for each drop
	// whether a put of the same block came before or after it.
	order sync.RWMutex

	mu    sync.Mutex // one message at a time
	out   *json.Encoder
	acked int // blocks
	drops int // of these
}

func (ch *child) run(ctx context.Context, c Config) error {
	t, err := trace.Read(c.TracePath)
	if err != nil {
		return err
	}
	if ch.config, ch.trace, err = c.withTrace(t); err != nil {
		return err
	}
	ch.last = lastUses(ch.trace)
	if ch.store, err = c.Open(ctx, ch.config); err != nil {
		return fmt.Errorf("replay: open the store: %w", err)
	}
	if err = ch.send(message{Kind: msgReady}); err == nil {
		r := &run{config: ch.config, trace: ch.trace, done: make([]bool, len(ch.trace.Requests))}
		err = r.requests(ctx, ch.store, ch, func(o Outcome) error {
			return ch.send(message{Kind: msgDone, Request: o.Request, Outcome: &o})
		})
	}
	if err == nil {
		// The parent may be about to kill: wait for that, or for its end.
		if err = ch.send(message{Kind: msgEnd}); err == nil {
			<-ctx.Done()
		}
	}
	if cerr := closeStore(ctx, ch.store); err == nil {
		err = cerr
	}
	return err
}

func (ch *child) send(m message) error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if m.Kind == msgPut || m.Kind == msgDone {
		c := ch.store.Counters()
		m.Counters = &c
	}
	if err := ch.out.Encode(m); err != nil {
		return fmt.Errorf("replay: tell the parent: %w", err)
	}
	return nil
}

func (ch *child) putStart(request int, blocks []int) error {
	ch.order.RLock()
	err := ch.send(message{Kind: msgPut, Request: request, Blocks: blocks})
	if err != nil {
		ch.order.RUnlock()
	}
	return err
}

func (ch *child) putDone(request int, blocks []int, results []Result) error {
	var acked []int
	for i, r := range results {
		if r.OK {
			acked = append(acked, blocks[i])
		}
	}
	err := ch.send(message{Kind: msgAcked, Request: request, Blocks: blocks, Acked: acked})
	ch.order.RUnlock()
	if at, ok := ch.choose(request, acked); ok && err == nil {
		err = ch.drop(request, at)
	}
	return err
}

// choose counts the acknowledged blocks, and after every DropEvery of them
// picks the next one that no later request refers to: so the drops change
// nothing of what the trace finds.
func (ch *child) choose(request int, acked []int) (block int, ok bool) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	ch.acked += len(acked)
	if ch.config.DropEvery < 0 || ch.acked < (ch.drops+1)*ch.config.DropEvery {
		return 0, false
	}
	r := ch.trace.Requests[request]
	for _, at := range slices.Backward(acked) {
		if ch.last[blockgen.Ref{Scope: r.Scope, ID: r.IDs[at]}] == request {
			ch.drops++
			return at, true
		}
	}
	return 0, false
}

// lastUses gives for each block the last request that refers to it.
func lastUses(t *trace.Trace) map[blockgen.Ref]int {
	last := map[blockgen.Ref]int{}
	for i, r := range t.Requests {
		for _, id := range r.IDs {
			last[blockgen.Ref{Scope: r.Scope, ID: id}] = i
		}
	}
	return last
}

func (ch *child) drop(request, block int) error {
	ch.order.Lock()
	defer ch.order.Unlock()
	names := message{Kind: msgDropping, Request: request, Blocks: []int{block}}
	if err := ch.send(names); err != nil {
		return err
	}
	r := ch.trace.Requests[request]
	hash := blockgen.Ref{Scope: r.Scope, ID: r.IDs[block]}.Hash()
	if r := ch.store.Drop(ch.ctx, hash[:]); !r.OK {
		return nil // unknown, which is what the ledger holds it for
	}
	names.Kind = msgDropped
	return ch.send(names)
}
