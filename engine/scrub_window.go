package engine

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/disk"
)

// scrubWindow is the piece of a segment that a pass has in memory. The buffer
// is one of those that gets use, and is given back before each wait.
type scrubWindow struct {
	p        *scrubPass
	buf      *aligned.Buffer
	segment  uint64
	from, to int64 // what is loaded
}

func (w *scrubWindow) drop() {
	if w.buf != nil {
		w.buf.Free()
	}
	w.buf, w.from, w.to = nil, 0, 0
}

// bytes returns [off, off+n) of a segment, at most scrubPieceBytes, and reads
// ahead up to until. It is valid until the next call. Errors: ErrCorrupt (the
// file ends before), *unreadableError, and those that end segment or pass.
func (w *scrubWindow) bytes(ctx context.Context, segment uint64, off int64, n int, until int64) ([]byte, error) {
	if w.buf == nil || segment != w.segment || off < w.from || off+int64(n) > w.to {
		size := int(min(max(until-off, int64(n)), scrubPieceBytes))
		err := w.load(ctx, segment, off, size)
		if err != nil && size > n && (isUnreadable(err) || errors.Is(err, ErrCorrupt)) {
			err = w.load(ctx, segment, off, n) // what is bad may lie behind
		}
		if err != nil {
			return nil, err
		}
	}
	return w.buf.Bytes()[off-w.from:][:n], nil
}

func isUnreadable(err error) bool {
	var u *unreadableError
	return errors.As(err, &u)
}

// load waits for its turn and reads. Where a limit of the store is reached it
// waits on: all others come first.
func (w *scrubWindow) load(ctx context.Context, segment uint64, off int64, n int) error {
	for wait := scrubYieldStep; ; wait = min(2*wait, time.Second) {
		w.drop()
		if err := w.p.turn(ctx, int64(n)); err != nil {
			return err
		}
		err := w.read(ctx, segment, off, n)
		if !isWorn(err) {
			return err
		}
		if err := w.p.rest(ctx, wait); err != nil {
			return err
		}
	}
}

func (w *scrubWindow) read(ctx context.Context, segment uint64, off int64, n int) error {
	s := w.p.s
	s.o.private.points("scrub:read")
	buf, err := s.pool.TryGet(n)
	if err != nil {
		return err
	}
	cached, err := s.readPastCache(ctx, segment, off, buf.Bytes()[:n])
	if err != nil {
		buf.Free()
		return err
	}
	t := ScrubTotals{Bytes: int64(n)}
	if cached {
		t.CachedBytes = int64(n)
	}
	w.p.count(t)
	w.buf, w.segment, w.from, w.to = buf, segment, off, off+int64(n)
	return nil
}

// readPastCache fills p, aligned memory of the store, from the device where a
// path can. cached: it went through the page cache, which was asked to forget
// the range before.
func (s *Store) readPastCache(ctx context.Context, segment uint64, off int64, p []byte) (cached bool, err error) {
	h, err := s.vol.Acquire(segment)
	if err != nil {
		return false, asUnreadable(err)
	}
	defer h.Release()
	path := s.paths.pastCache()
	if path.dropsCache || h.File(true) == nil {
		_ = h.File(false).DropCache(off, int64(len(p))) // a hint
	}
	items := []tiers.Item{{File: h, Offset: off, Length: len(p), Spans: [][]byte{p}, OffHeap: true, WaitForDevice: true}}
	if err = s.readBatch(context.WithoutCancel(ctx), path, items); err == nil {
		err = items[0].Err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return false, s.corruptAt(index.Extent{Address: disk.Address{Segment: segment}}, off, "the segment ends before", err)
	}
	way := items[0].Path
	return way == tiers.PathBuffered || way == tiers.PathBufferedBounce, asUnreadable(err)
}

// asUnreadable tells errors about the device from those about the store.
func asUnreadable(err error) error {
	for _, ours := range []error{disk.ErrNoSegment, tiers.ErrBusy, tiers.ErrClosed, aligned.ErrExhausted} {
		if errors.Is(err, ours) {
			return err
		}
	}
	if err != nil {
		return &unreadableError{err}
	}
	return nil
}

// pastCache is a path that reads from the device itself, if there is one that
// is still trusted.
func (p *ioPaths) pastCache() *ioPath {
	path := p.useFor(1)
	if path.dropsCache {
		for _, o := range p.others(path) {
			if !o.dropsCache {
				return o
			}
		}
	}
	return path
}
