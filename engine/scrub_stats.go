package engine

import "time"

// ScrubTotals count what a pass of the scrubber came across.
type ScrubTotals struct {
	// Blocks are extents that verified, alias pages too, and Bytes what was
	// read from the device for everything.
	Blocks, Bytes int64
	// Segments were gone through to their end. Of a sealed one header, footer
	// and tombstones were looked at as well.
	Segments int64
	// Bad are blocks that did not verify, by any path, and were handed to
	// quarantine.
	Bad int64
	// Damaged are things that no get depends on: segment headers, footers,
	// tombstone files, alias pages, padding.
	Damaged int64
	// Unreadable are reads that failed with an error of the system. The data
	// are kept.
	Unreadable int64
	// Skipped are segments left half-way, because too many reads of them
	// failed, and footers too large for the buffers.
	Skipped int64
	// Transient are blocks that did not verify at first and did when they were
	// read again: memory, a driver or a path made a mistake.
	Transient int64
	// CachedBytes, of Bytes, came through the page cache. It was asked to
	// forget them first, which it need not do: whether the bytes on the device
	// were looked at is not known.
	CachedBytes int64
}

func (t *ScrubTotals) add(o ScrubTotals) {
	t.Blocks += o.Blocks
	t.Bytes += o.Bytes
	t.Segments += o.Segments
	t.Bad += o.Bad
	t.Damaged += o.Damaged
	t.Unreadable += o.Unreadable
	t.Skipped += o.Skipped
	t.Transient += o.Transient
	t.CachedBytes += o.CachedBytes
}

// ScrubCycle is one pass of the scrubber in the background.
type ScrubCycle struct {
	Number uint64 // 1, 2, 3 … in the life of the store; 0: none
	Start  time.Time
	End    time.Time // zero while it runs
	ScrubTotals
}

// ScrubState is what the scrubber in the background is doing.
type ScrubState string

// The states of the scrubber.
const (
	// ScrubOff: Options.ScrubCycle is negative, or the store is read-only.
	ScrubOff ScrubState = "off"
	// ScrubIdle: nothing is stored, or the cycle is done before its time.
	ScrubIdle ScrubState = "idle"
	// ScrubReading: between two reads, which follow at the pace of the cycle.
	ScrubReading ScrubState = "reading"
	// ScrubYielding: a read is due and waits for gets or puts under way.
	ScrubYielding ScrubState = "yielding"
	// ScrubPaused: the store is not ok, or the index gives no answer.
	ScrubPaused ScrubState = "paused"
)

// ScrubStats is the scrubber as Stats shows it.
type ScrubStats struct {
	State  ScrubState
	Reason string // why it is off, idle or paused
	// Cycle is the one under way, with what it came across so far, and Last the
	// latest that was gone through.
	Cycle, Last ScrubCycle
	// Due is when the cycle under way should be over.
	Due time.Time
	// Segment and Page are where it is, and LeftBytes about what is left.
	Segment   uint64
	Page      uint32
	LeftBytes int64
	// Total is everything since Open, of ScrubNow too, and YieldedTime how long
	// reads that were due waited for gets and puts.
	Total       ScrubTotals
	YieldedTime time.Duration
}

// scrubStats is what Stats shows of the scrubber.
func (s *Store) scrubStats() ScrubStats {
	b := s.scrub
	b.mu.Lock()
	defer b.mu.Unlock()
	out := ScrubStats{
		State: b.state, Reason: b.reason, Cycle: b.cycle.ScrubCycle, Last: b.last,
		Segment: b.cycle.at.Segment, Page: b.cycle.at.Page,
		LeftBytes: b.leftLocked(), Total: b.total, YieldedTime: b.yielded,
	}
	if b.cycle.Number > 0 && b.cycle.End.IsZero() {
		out.Due = b.cycle.Start.Add(b.o.cycle)
	}
	return out
}
