package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/disk"
)

const (
	// scrubPortion is how many references of a segment are held at a time.
	scrubPortion = 256
	// scrubFindingsMax bounds the events of one pass; the totals count all.
	scrubFindingsMax = 64
	// scrubFailuresMax is how many reads of a segment may fail before the rest
	// of it is left: a device that is gone is not asked for each block.
	scrubFailuresMax = 8
	// scrubBadPause is the least time between two blocks that a pass quarantines,
	// and scrubBadMax how many it does. A spot of the device that rots is taken
	// out without what it finds being a storm, which would turn every get into a
	// miss; and memory that is bad under the scrubber takes out no more than that.
	scrubBadPause = stormWindow / (stormCount / 2)
	scrubBadMax   = 64
	// scrubNearBytes is how large a gap between two extents may be for them to
	// be read together.
	scrubNearBytes = 64 << 10
)

// scrubPass goes once over all that the index refers to, in the order of the
// addresses, from at on up to segments from end on. It holds no file and no
// buffer while it waits. It belongs to one goroutine.
type scrubPass struct {
	s   *Store
	at  disk.Address // what is next; page 0 is what belongs to the whole segment
	end uint64
	// turn returns when the next read, of n bytes, may begin, or with an error
	// that ends the pass; rest waits for something to come free.
	turn func(ctx context.Context, n int64) error
	rest func(ctx context.Context, d time.Duration) error
	// moved, count and found are told how far the pass is and what it met.
	moved func(at disk.Address, doneBytes int64)
	count func(ScrubTotals)
	found func(ScrubFinding) // may be nil

	findings  int
	bad       int       // handed to quarantine
	badNext   time.Time // not before that
	failures  int       // reads of the segment at hand that failed
	doneBytes int64     // of it
	win       scrubWindow
}

// unreadableError is a read that the system failed: it says nothing about the
// bytes.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string { return e.err.Error() }
func (e *unreadableError) Unwrap() error { return e.err }

// errSegmentLeft: too many reads of a segment failed.
var errSegmentLeft = errors.New("engine: too many reads of the segment failed")

// run returns nil when all is gone through. Its errors are those that say
// nothing about the store: the context's, of the index, ErrNotScrubbed.
func (p *scrubPass) run(ctx context.Context) error {
	p.win.p = p
	defer p.win.drop()
	for {
		id, ok := p.s.segmentFrom(p.at.Segment, p.end)
		if !ok {
			return nil
		}
		if id != p.at.Segment {
			p.moveTo(disk.Address{Segment: id}, 0)
		}
		p.failures = 0
		switch err := p.segment(ctx, id); {
		case err == nil:
			p.count(ScrubTotals{Segments: 1})
		case errors.Is(err, disk.ErrNoSegment):
			p.gone(id)
		case errors.Is(err, errSegmentLeft):
			p.count(ScrubTotals{Skipped: 1})
			p.report(ScrubFinding{File: disk.SegmentName(id), Offset: -1,
				Reason: fmt.Sprintf("%d reads failed: the rest of the segment is left to the next pass", scrubFailuresMax)})
		default:
			return err
		}
		p.moveTo(disk.Address{Segment: id + 1}, 0)
	}
}

// gone is told of a segment whose file is not there: evicted meanwhile, or
// removed by somebody else. Then its blocks are taken out as they are asked for.
func (p *scrubPass) gone(id uint64) {
	if p.s.isGoing(id) {
		return
	}
	p.s.tellGone(id)
	p.count(ScrubTotals{Skipped: 1})
	p.report(ScrubFinding{File: disk.SegmentName(id), Offset: -1, Reason: "the file was removed by somebody else: its blocks are misses"})
}

// segmentFrom is the first segment from id on, below end, that is not on its
// way out.
func (s *Store) segmentFrom(id, end uint64) (first uint64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, seg := range s.segs {
		if seg.id >= id && seg.id < end && !seg.victim && (!ok || seg.id < first) {
			first, ok = seg.id, true
		}
	}
	return first, ok
}

func (p *scrubPass) moveTo(at disk.Address, doneBytes int64) {
	p.at, p.doneBytes = at, doneBytes
	p.moved(at, doneBytes)
}

// segment goes through one segment, from where the pass is.
func (p *scrubPass) segment(ctx context.Context, id uint64) error {
	p.win.drop()
	if p.at.Page == 0 {
		if err := p.parts(ctx, id); err != nil {
			return err
		}
		p.moveTo(disk.Address{Segment: id, Page: 1}, 0)
	}
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		var list []index.Referrer
		var err error
		if list, more, err = p.referrers(ctx, id); err != nil {
			return err
		}
		if err := p.extents(ctx, list); err != nil {
			return err
		}
	}
	return nil
}

// referrers lists the next portion of the segment.
func (p *scrubPass) referrers(ctx context.Context, id uint64) ([]index.Referrer, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, p.s.o.CallTimeout)
	defer cancel()
	return p.s.idx.ReferrersFrom(ctx, id, p.at.Page, scrubPortion)
}

// extents verifies the extents of a portion, each once.
func (p *scrubPass) extents(ctx context.Context, list []index.Referrer) error {
	for len(list) > 0 {
		n := 1
		for n < len(list) && list[n].At == list[0].At {
			n++
		}
		e := extentOfReferrer(list[0])
		if keys := p.s.visible(list[:n]); len(keys) > 0 {
			if err := p.extent(ctx, keys, e, runEnd(list)); err != nil {
				return err
			}
		}
		p.moveTo(disk.Address{Segment: e.Address.Segment, Page: e.Address.Page + e.Pages}, p.doneBytes+e.Bytes())
		list = list[n:]
	}
	return nil
}

// extentOfReferrer is the extent at the address of a referrer.
func extentOfReferrer(r index.Referrer) index.Extent {
	if r.At == r.Own.Address {
		return r.Own
	}
	return r.Extent
}

// runEnd is the offset up to which it is worth to read on from the first of
// these extents: the end of those that lie side by side.
func runEnd(list []index.Referrer) int64 {
	first := extentOfReferrer(list[0])
	from := first.Address.Offset()
	end := from + first.Bytes()
	for _, r := range list[1:] {
		e := extentOfReferrer(r)
		if off := e.Address.Offset(); off-end > scrubNearBytes || off-from >= scrubPieceBytes {
			break
		}
		end = max(end, e.Address.Offset()+e.Bytes())
	}
	return end
}

// visible leaves out what lies under an epoch floor or is known to be bad. The
// key whose header stands before the bytes comes first.
func (s *Store) visible(list []index.Referrer) (keys []index.KeyEntry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range list {
		if _, bad := s.bad[r.At]; bad || r.Seq < s.floorLocked(r.Namespace) {
			continue
		}
		keys = append(keys, r.KeyEntry)
		if !r.IsAlias() {
			keys[0], keys[len(keys)-1] = keys[len(keys)-1], keys[0]
		}
	}
	return keys
}

// report tells of something that is not as it should be.
func (p *scrubPass) report(f ScrubFinding) {
	if p.found != nil {
		p.found(f)
	}
	if p.findings++; p.findings <= scrubFindingsMax {
		p.s.event(EventScrub, "%s", f)
	}
}

// unreadable notes a read that failed.
func (p *scrubPass) unreadable(f ScrubFinding, err error) error {
	p.count(ScrubTotals{Unreadable: 1})
	f.Reason = fmt.Sprintf("it can not be read and is kept: %v", err)
	p.report(f)
	if p.failures++; p.failures >= scrubFailuresMax {
		return errSegmentLeft
	}
	return nil
}

// isWorn reports whether a limit of the store kept a read from being tried.
func isWorn(err error) bool {
	return errors.Is(err, aligned.ErrExhausted) || errors.Is(err, tiers.ErrBusy)
}
