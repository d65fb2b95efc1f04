package engine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sealstone/sealstone/tiers/disk"
)

// ScrubOptions configures ScrubNow.
type ScrubOptions struct {
	// BytesPerSecond bounds the rate of reading. The default is
	// Options.ScrubRateMax.
	BytesPerSecond int64
	// Progress is told how much was read and about how much there is, from a
	// goroutine of the store.
	Progress func(doneBytes, totalBytes int64)
}

// ScrubReport is what one pass over the store found.
type ScrubReport struct {
	Start, End time.Time
	ScrubTotals
	// Findings are the first 64; the totals count all.
	Findings []ScrubFinding
}

// ScrubFinding is one thing that is not as it should be.
type ScrubFinding struct {
	File   string // within the store's directory
	Offset int64  // in the file, or -1
	// Namespace and Hash name the block, if it is about one.
	Namespace uint32
	Hash      []byte
	Reason    string // what is wrong, and what it means
}

func (f ScrubFinding) String() string {
	where := f.File
	if f.Offset >= 0 {
		where = fmt.Sprintf("%s offset %d", f.File, f.Offset)
	}
	if f.Hash == nil {
		return fmt.Sprintf("%s: %s", where, f.Reason)
	}
	return fmt.Sprintf("block %x of namespace %d in %s: %s", f.Hash, f.Namespace, where, f.Reason)
}

// ScrubNow verifies everything that the index refers to when it begins, once,
// as fast as the rate allows, and does with what is bad what a get would do.
// Beside gets and puts it takes its turn with one read of up to 1 MiB at a
// time. It leaves the cycle in the background alone. One runs at a time; the
// next waits.
//
// With an error the report is about what was gone through until then. Errors:
// the context's, ErrClosed, ErrNotScrubbed (the store answers misses only, or
// came to that), ErrIndexFailed.
func (s *Store) ScrubNow(ctx context.Context, o ScrubOptions) (*ScrubReport, error) {
	b := s.scrub
	if err := s.begin(); err != nil {
		return &ScrubReport{}, err
	}
	ctx, cancel := b.bound(ctx)
	if err := b.nowMu.lock(ctx); err != nil {
		cancel()
		s.ops.done()
		return &ScrubReport{}, fmt.Errorf("engine: scrub: %w", context.Cause(ctx))
	}
	r := s.newScrubRun(o)
	done := make(chan error, 1)
	go func() {
		defer s.ops.done()
		defer b.nowMu.unlock()
		defer cancel()
		done <- r.pass.run(ctx)
	}()
	// A device that hangs holds up the pass, not the caller.
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		select {
		case err = <-done: // the pass has ended, and ctx with it
		default:
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		err = fmt.Errorf("engine: scrub: %w", err)
	}
	return r.result(s.o.private.now()), err
}

// scrubRun is a ScrubNow under way.
type scrubRun struct {
	pass *scrubPass
	mu   sync.Mutex
	r    ScrubReport
}

func (s *Store) newScrubRun(o ScrubOptions) *scrubRun {
	orDefault(&o.BytesPerSecond, s.scrub.o.rateMax)
	end := s.segmentsEnd()
	run := &scrubRun{r: ScrubReport{Start: s.o.private.now()}}
	p := &scrubPass{s: s, end: end, rest: s.scrub.sleep, moved: func(disk.Address, int64) {}}
	total := s.liveFrom(0, end)
	p.turn = func(ctx context.Context, n int64) error {
		if h := s.health.get(); h.State == HealthAllMiss {
			return fmt.Errorf("%w: it is %s: %v", ErrNotScrubbed, h.State, h.Reasons)
		}
		return s.scrub.sleep(ctx, bytesTime(n, o.BytesPerSecond))
	}
	p.count = func(t ScrubTotals) {
		run.mu.Lock()
		run.r.add(t)
		done := run.r.Bytes
		run.mu.Unlock()
		s.scrub.mu.Lock()
		s.scrub.total.add(t)
		s.scrub.mu.Unlock()
		if o.Progress != nil && t.Bytes > 0 {
			o.Progress(min(done, total), total)
		}
	}
	p.found = func(f ScrubFinding) {
		run.mu.Lock()
		defer run.mu.Unlock()
		if len(run.r.Findings) < scrubFindingsMax {
			run.r.Findings = append(run.r.Findings, f)
		}
	}
	run.pass = p
	return run
}

func (r *scrubRun) result(now time.Time) *ScrubReport {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := r.r
	out.Findings = append([]ScrubFinding(nil), r.r.Findings...)
	out.End = now
	return &out
}
