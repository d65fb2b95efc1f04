package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/sealstone/sealstone/tiers"
)

// ioPath is one way that bytes can take between memory and disk.
type ioPath struct {
	name string
	rw   tiers.ReadWriter
	// dropsCache: reads come from the page cache, so one that did not verify
	// proves little until the cache has forgotten it.
	dropsCache bool

	reads   atomic.Int64           // handed to the reader
	demoted atomic.Pointer[string] // why it is not used any more
}

// ioPaths are the paths that the probe has proven, the chosen one first. A
// path that returned bytes which another path shows to be wrong is demoted:
// it is not used again until the next Open. The last one stays in use, since
// all that it returns is verified.
type ioPaths struct {
	list    []*ioPath
	current atomic.Pointer[ioPath]
	// alone, if set, takes a read that comes by itself: to wake a ring's thread
	// costs more than the ring saves on one read.
	alone *ioPath
	meter depthMeter
	mu    sync.Mutex // demotions one at a time
}

// add appends a path; the first one is in use at once. Only Open adds.
func (p *ioPaths) add(path *ioPath) {
	p.list = append(p.list, path)
	p.current.CompareAndSwap(nil, path)
}

func (p *ioPaths) use() *ioPath { return p.current.Load() }

// useFor returns the path for a batch of so many reads.
func (p *ioPaths) useFor(items int) *ioPath {
	if items == 1 && p.alone != nil && p.alone.demoted.Load() == nil {
		return p.alone
	}
	return p.use()
}

// writer is the path that writes take: that of reads.
func (p *ioPaths) writer() tiers.ReadWriter {
	if path := p.use(); path != nil {
		return path.rw
	}
	return nil // while the store is opened
}

// others returns the paths beside one that are still trusted.
func (p *ioPaths) others(than *ioPath) []*ioPath {
	var out []*ioPath
	for _, o := range p.list {
		if o != than && o.demoted.Load() == nil {
			out = append(out, o)
		}
	}
	return out
}

// demote takes a path out of use. It reports whether this call did.
func (p *ioPaths) demote(path *ioPath, reason string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	rest := p.others(path)
	if canaryLaw6 || path.demoted.Load() != nil || len(rest) == 0 {
		return false
	}
	path.demoted.Store(&reason)
	if p.current.Load() == path {
		p.current.Store(rest[0])
	}
	return true
}

// close closes all readers and returns when nothing is in flight, or ctx
// ended.
func (p *ioPaths) close(ctx context.Context) error {
	var errs []error
	for _, path := range p.list {
		errs = append(errs, path.rw.Close(ctx))
	}
	return errors.Join(errs...)
}

// read hands a batch to a path. All items share one Done.
func (p *ioPaths) read(ctx context.Context, path *ioPath, items []tiers.Item) error {
	if len(items) == 0 {
		return nil
	}
	done := items[0].Done
	counted := func(it *tiers.Item) {
		p.meter.add(-1)
		if done != nil {
			done(it)
		}
	}
	for i := range items {
		items[i].Done = counted
	}
	path.reads.Add(int64(len(items)))
	p.meter.add(len(items))
	return path.rw.ReadBatch(ctx, items)
}

// PathState is a path as Stats shows it.
type PathState struct {
	Name string
	// Current: reads go this way now.
	Current bool
	// Reads were handed to it.
	Reads int64
	// Demoted says why the path is not used any more, or "".
	Demoted string
	// Refusal is what the reader itself has been refused and does without.
	Refusal string
}

func (p *ioPaths) states() []PathState {
	var out []PathState
	for _, path := range p.list {
		st := PathState{Name: path.name, Current: p.use() == path, Reads: path.reads.Load()}
		if why := path.demoted.Load(); why != nil {
			st.Demoted = *why
		}
		if r, ok := path.rw.(interface{ Refusal() string }); ok {
			st.Refusal = r.Refusal()
		}
		out = append(out, st)
	}
	return out
}

// demotePath is called when a path returned wrong bytes, several times, for a
// block that another path reads well.
func (s *Store) demotePath(path *ioPath, good string, cause error) {
	reason := fmt.Sprintf("returned wrong bytes where %s did not: %v", good, cause)
	if s.paths.demote(path, reason) {
		s.event(EventPathDemoted, "path %s is not used any more until the next Open: %s; reads now go by %s", path.name, reason, s.paths.use().name)
	}
}
