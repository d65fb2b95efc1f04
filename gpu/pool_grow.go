package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// growIfNeeded has a goroutine get more memory while requests wait for it and
// the limit leaves room. The driver may block, and nobody who gives memory back
// shall. p.mu is held.
func (p *pool) growIfNeeded() {
	if !p.wantsGrowth() {
		p.failHopeless()
		return
	}
	p.growing = true
	need := roundUp(p.waiters[0].sizeBytes, p.unitBytes)
	p.grown.Go(func() {
		for need > 0 {
			r, err := p.growOnce(need)
			need = p.finishGrow(r, err)
		}
	})
}

// wantsGrowth says whether asking the driver is worth a try. p.mu is held.
func (p *pool) wantsGrowth() bool {
	if len(p.waiters) == 0 || p.growing || p.closed != nil {
		return false
	}
	if p.growErr != nil && p.clock.Now().Before(p.growNext) {
		return false
	}
	n := roundUp(p.waiters[0].sizeBytes, p.unitBytes)
	return p.room(n) >= n
}

// room is how much may be asked of the driver for a piece of n bytes, counting
// regions that nobody uses, which can go. p.mu is held.
func (p *pool) room(n int64) int64 {
	kept := int64(0)
	for _, r := range p.regions {
		if r.taken > 0 {
			kept += r.sizeBytes
		}
	}
	return min(p.limitBytes-kept, max(p.regionBytes, roundUp(n, p.regionBytes)))
}

// growOnce asks the driver, for less and less, down to what the piece needs.
func (p *pool) growOnce(need int64) (*region, error) {
	p.mu.Lock()
	want := p.room(need) / p.unitBytes * p.unitBytes
	idle := p.detachIdle(want)
	p.mu.Unlock()
	var errs []error
	for _, r := range idle {
		if err := p.drop(r); err != nil {
			// It is still there and never used again, so it counts.
			p.forgo(r.sizeBytes)
			errs = append(errs, err)
		}
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	for {
		r, err := p.grow(want)
		if err == nil {
			r.arena = newArena(r.sizeBytes)
			return r, nil
		}
		if want == need || isLost(err) || isHung(err) {
			return nil, err
		}
		want = max(need, want/2/p.unitBytes*p.unitBytes)
	}
}

// forgo takes memory that the driver did not take back out of the limit.
func (p *pool) forgo(sizeBytes int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limitBytes -= sizeBytes
	p.stats.SetAsideBytes += sizeBytes
}

// detachIdle takes regions out that nobody uses, as many as stand between the
// limit and want more bytes. p.mu is held.
func (p *pool) detachIdle(want int64) []*region {
	var idle []*region
	p.regions = slices.DeleteFunc(p.regions, func(r *region) bool {
		if r.taken > 0 || p.stats.HeldBytes+want <= p.limitBytes {
			return false
		}
		p.stats.HeldBytes -= r.sizeBytes
		idle = append(idle, r)
		return true
	})
	return idle
}

// finishGrow adds what the driver gave and serves who waits. It returns how
// much the next request needs that asks for still more, or 0.
func (p *pool) finishGrow(r *region, err error) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.growing = false
	p.growErr = err
	if err != nil {
		p.stats.GrowFailed++
		p.growNext = p.clock.Now().Add(growAgain)
	} else {
		p.regions = append(p.regions, r)
		p.stats.HeldBytes += r.sizeBytes
	}
	p.serve()
	if !p.wantsGrowth() {
		p.failHopeless()
		return 0
	}
	p.growing = true
	return roundUp(p.waiters[0].sizeBytes, p.unitBytes)
}

// failHopeless answers requests that no return of memory could serve: the
// driver refused more, and what is or was given out is too small or set aside.
// p.mu is held.
func (p *pool) failHopeless() {
	if p.growErr == nil || p.growing {
		return
	}
	for len(p.waiters) > 0 {
		w := p.waiters[0]
		if p.mayServe(roundUp(w.sizeBytes, p.unitBytes)) {
			return
		}
		p.stats.Refused++
		w.answer(nil, fmt.Errorf("%w: %d bytes of %s memory: %w", ErrExhausted, w.sizeBytes, p.name, p.growErr))
		p.waiters = p.waiters[1:]
		p.serve()
	}
}

// mayServe says whether a region has n bytes once its pieces come back. p.mu
// is held.
func (p *pool) mayServe(n int64) bool {
	for _, r := range p.regions {
		aside := int64(0)
		for pc := range p.inUse {
			if pc.aside && pc.region == r {
				aside += roundUp(pc.sizeBytes, p.unitBytes)
			}
		}
		if r.sizeBytes-aside >= n {
			return true
		}
	}
	return false
}

// stop answers who waits, and every later request, with why.
func (p *pool) stop(why error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed != nil {
		return
	}
	p.closed = why
	for _, w := range p.waiters {
		w.answer(nil, why)
	}
	p.waiters = nil
}

// close lets go of all regions that nobody uses, or of none with keepAll, and
// names who uses the others. It is called once nothing runs any more.
func (p *pool) close(keepAll bool) error {
	p.stop(ErrClosed)
	p.grown.Wait()
	var errs []error
	if err := p.leaked(); err != nil {
		errs = append(errs, err)
	}
	if keepAll {
		return errors.Join(errs...)
	}
	p.mu.Lock()
	idle := p.detachIdle(p.limitBytes + 1)
	p.mu.Unlock()
	for _, r := range idle {
		if err := p.drop(r); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// leaked names who holds pieces, if somebody does.
func (p *pool) leaked() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.inUse) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %d bytes of %s memory:%s", ErrLeaked, p.stats.InUseBytes, p.name, p.holders())
}

// holdersMax is how many places Close names.
const holdersMax = 5

// holders lists who holds pieces, those with the most first. p.mu is held.
func (p *pool) holders() string {
	held := map[string]int{}
	for pc := range p.inUse {
		held[pc.holder]++
	}
	names := slices.SortedFunc(maps.Keys(held), func(a, b string) int {
		return cmp.Or(cmp.Compare(held[b], held[a]), strings.Compare(a, b))
	})
	var out strings.Builder
	for i, name := range names {
		if i == holdersMax {
			fmt.Fprintf(&out, " and %d others;", len(names)-i)
			break
		}
		fmt.Fprintf(&out, " %d by %s;", held[name], name)
	}
	return strings.TrimSuffix(out.String(), ";")
}
