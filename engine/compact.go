package engine

import (
	"context"
	"errors"
	"fmt"
)

// defaultCompactTarget is the live share of segment bytes at which Compact is
// content.
const defaultCompactTarget = 0.9

// CompactOptions says how far Compact goes, and how fast.
type CompactOptions struct {
	// TargetShare is the share of the segments' bytes that is to be live, over
	// 0 and up to 1. Default 0.9.
	TargetShare float64
	// BytesPerSecond bounds what is copied; 0 is no bound. Each copied byte is
	// read once and written once.
	BytesPerSecond int64
	// DryRun only tells what would be done.
	DryRun bool
	// Progress is told how many of the bytes to be copied are, from the
	// caller's goroutine.
	Progress func(doneBytes, totalBytes int64)
}

func (o CompactOptions) withDefaults() (CompactOptions, error) {
	orDefault(&o.TargetShare, defaultCompactTarget)
	if o.TargetShare < 0 || o.TargetShare > 1 {
		return o, invalidf("compact: TargetShare %v must lie in 0..1", o.TargetShare)
	}
	if o.Progress == nil {
		o.Progress = func(int64, int64) {}
	}
	return o, nil
}

// SpaceUse is what segments hold.
type SpaceUse struct {
	Segments int `json:"segments"`
	// SegmentBytes are on disk, sidecars included; LiveBytes of them are
	// extents and aliases that visible blocks need.
	SegmentBytes int64 `json:"segment_bytes"`
	LiveBytes    int64 `json:"live_bytes"`
}

// LiveShare is the live share of the bytes on disk; 1 where there are none.
func (u SpaceUse) LiveShare() float64 {
	if u.SegmentBytes <= 0 {
		return 1
	}
	return float64(u.LiveBytes) / float64(u.SegmentBytes)
}

// CompactReport is what a compaction did, or would do.
type CompactReport struct {
	DryRun bool `json:"dry_run"`
	// Before and After; in a dry run After is an estimate.
	Before SpaceUse `json:"before"`
	After  SpaceUse `json:"after"`
	// Planned segments were chosen, Removed ones are gone.
	Planned int `json:"segments_planned"`
	Removed int `json:"segments_removed"`
	// What was copied: extents, alias pages, and the bytes of both. In a dry
	// run BytesCopied is what would be.
	ExtentsMoved int64 `json:"extents_moved"`
	AliasesMoved int64 `json:"aliases_moved"`
	BytesCopied  int64 `json:"bytes_copied"`
	// Purged blocks were of an older epoch, Damaged ones did not verify and
	// were quarantined.
	Purged  int64 `json:"blocks_purged"`
	Damaged int64 `json:"blocks_damaged"`
	// TombstonesCarried were copied because an older segment stays.
	TombstonesCarried int64 `json:"tombstones_carried"`
	// Kept segments were chosen and could not be removed.
	Kept []CompactKept `json:"kept"`
	// Interrupted: the context ended, or the store was closed, before the end.
	Interrupted bool `json:"interrupted"`
}

// CompactKept is a segment that stays, and why.
type CompactKept struct {
	Segment uint64 `json:"segment"`
	Reason  string `json:"reason"`
}

// Compact gives dead space back: segments of which little is live are emptied,
// their live blocks moved on, and removed, until TargetShare of what is left
// is live or nothing more can be gained. No block is lost, and put sequences,
// aliases and tombstones stay as they are; a crash at any moment leaves a
// store that has every block.
//
// It runs beside puts, gets and drops. An eviction that wants its turn gets it
// between two blocks. When ctx ends, Compact stops after the present block: what
// was moved stays moved. It needs room for one more segment; without it the
// error is ErrShed. The report is returned with an error too.
func (s *Store) Compact(ctx context.Context, o CompactOptions) (*CompactReport, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.ops.done()
	return s.compact(ctx, o, false)
}

func (s *Store) compact(ctx context.Context, o CompactOptions, sealEnd bool) (*CompactReport, error) {
	pace, err := newPacer(o.BytesPerSecond)
	if err != nil {
		return nil, err
	}
	c := &compaction{s: s, o: o, pace: pace, sealEnd: sealEnd, report: &CompactReport{DryRun: o.DryRun, Kept: []CompactKept{}}}
	err = c.run(ctx)
	if errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed) {
		c.report.Interrupted = true
	}
	return c.report, err
}

// compaction is a Compact under way.
type compaction struct {
	s      *Store
	o      CompactOptions
	pace   *pacer
	report *CompactReport
	total  int64 // bytes that the plan copies
	// sealEnd: nobody else is going to fill the segment of moved blocks.
	sealEnd bool
}

func (c *compaction) run(ctx context.Context) error {
	if !c.o.DryRun {
		if err := c.s.writable(); err != nil {
			return fmt.Errorf("engine: compact: %w", err)
		}
		if err := c.s.settleFor(ctx); err != nil {
			return fmt.Errorf("engine: compact: %w", err)
		}
	}
	p, err := c.plan(ctx)
	if err != nil {
		return fmt.Errorf("engine: compact: %w", err)
	}
	c.report.Before, c.report.After = p.before, p.after()
	c.report.Planned, c.total = len(p.victims), p.chosen.liveBytes
	if c.o.DryRun {
		c.report.BytesCopied = c.total
		return nil
	}
	if err = c.work(ctx, p.victims); err == nil && c.sealEnd {
		err = c.s.sealMoved(ctx)
	}
	if use, useErr := c.s.spaceUse(context.WithoutCancel(ctx)); useErr == nil {
		c.report.After = use
	} else {
		err = errors.Join(err, useErr)
	}
	if err != nil {
		return fmt.Errorf("engine: compact: %w", err)
	}
	return nil
}

// work empties the victims one after the other.
func (c *compaction) work(ctx context.Context, victims []segmentUse) error {
	for i := 0; i < len(victims); {
		err := c.empty(ctx, victims[i].id)
		var kept errKept
		switch {
		case errors.Is(err, errEvictionWaits):
			continue // it has the lock by now; then this segment again
		case errors.As(err, &kept):
			c.report.Kept = append(c.report.Kept, CompactKept{victims[i].id, kept.reason})
		case errors.Is(err, ErrShed) && !errors.Is(err, ErrReadOnly):
			return fmt.Errorf("no room for the segment that live blocks move to, %d bytes: free that much, or raise the capacity: %w", c.s.room.segmentBytes+sidecarBytes, err)
		case err != nil:
			return err
		}
		i++
	}
	return nil
}

// mayGoOn is asked before each block.
func (c *compaction) mayGoOn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if c.s.closing.Load() {
		return ErrClosed
	}
	if c.s.evictWanted.Load() > 0 {
		return errEvictionWaits
	}
	return nil
}

// errEvictionWaits: an eviction wants its turn.
var errEvictionWaits = errors.New("engine: an eviction waits")

// errKept: the segment has to stay; the compaction goes on with the next.
type errKept struct{ reason string }

func (e errKept) Error() string { return "segment stays: " + e.reason }
