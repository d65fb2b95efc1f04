package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// What damage to a part of a segment means. None is mended in place: a segment
// is never overwritten.
const (
	headerMeans  = "blocks are read all the same; the page goes with its segment"
	footerMeans  = "gets do not need it. Were the index lost, a rebuild would read each extent of the segment instead; it goes with its segment, when its blocks are moved on or evicted"
	sidecarMeans = "gets do not need it. Were the index lost, a rebuild would leave out all blocks of the segment, since it could not tell which were dropped"
)

// parts looks at what belongs to a whole segment: its header page, the footer
// of a sealed one, its tombstones.
func (p *scrubPass) parts(ctx context.Context, id uint64) error {
	err := p.part(disk.SegmentName(id), headerMeans, func() error { return p.header(ctx, id) })
	if err == nil && p.s.isSealed(id) {
		err = p.part(disk.SegmentName(id), footerMeans, func() error { return p.footer(ctx, id) })
	}
	if err == nil {
		err = p.part(disk.SidecarName(id), sidecarMeans, func() error { return p.sidecar(ctx, id) })
	}
	return err
}

func (s *Store) isSealed(id uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg := s.segs[id]
	return seg != nil && seg.sealed
}

// part looks at a part, several times if it seems damaged, and reports what is
// wrong with it.
func (p *scrubPass) part(file, means string, look func() error) error {
	var err error
	for try := range readTriesMax {
		p.win.drop()
		if err = look(); err == nil || !isDamage(err) {
			if err == nil && try > 0 {
				p.count(ScrubTotals{Transient: 1})
			}
			break
		}
	}
	var c *disk.CorruptError
	var be *BlockError
	f := ScrubFinding{File: file, Offset: -1}
	switch {
	case err == nil:
		return nil
	case errors.As(err, &c):
		f.Offset = c.Offset
	case errors.As(err, &be):
		f.Offset = be.Offset
	}
	switch {
	case isDamage(err):
		p.count(ScrubTotals{Damaged: 1})
		f.Reason = fmt.Sprintf("%v; %s", err, means)
		p.report(f)
		return nil
	case isUnreadable(err):
		return p.unreadable(f, err)
	}
	return err
}

func isDamage(err error) bool {
	return errors.Is(err, disk.ErrCorrupt) || errors.Is(err, ErrCorrupt) || errors.Is(err, disk.ErrUnsupported)
}

func (p *scrubPass) header(ctx context.Context, id uint64) error {
	b, err := p.win.bytes(ctx, id, 0, disk.PageBytes, 0)
	if err != nil {
		return err
	}
	h, err := disk.DecodeSegmentHeader(b, p.s.key)
	if err == nil && (h.Segment != id || h.UUID != p.s.uuid) {
		return &disk.CorruptError{What: "segment header", Segment: id, Reason: disk.ReasonPlace,
			Err: fmt.Errorf("it is of segment %016x of store %x", h.Segment, h.UUID)}
	}
	return err
}

// footer reads trailer and footer of a sealed segment. A footer that is larger
// than the store's buffers hold is left out.
func (p *scrubPass) footer(ctx context.Context, id uint64) error {
	size, err := p.s.segmentSize(id)
	if err != nil {
		return err
	}
	if size < 2*disk.PageBytes || size%disk.PageBytes != 0 {
		return &disk.CorruptError{What: "segment trailer", Segment: id, Offset: size, Reason: disk.ReasonShort}
	}
	b, err := p.win.bytes(ctx, id, size-disk.PageBytes, disk.PageBytes, 0)
	if err != nil {
		return err
	}
	start, n, err := disk.DecodeTrailer(b, p.s.key, p.s.uuid, id)
	if err != nil {
		var c *disk.CorruptError
		if errors.As(err, &c) { // its offsets are those in the trailer
			c.Segment, c.Offset = id, size-disk.PageBytes
		}
		return err
	}
	from := int64(start) * disk.PageBytes
	if from+n != size {
		return &disk.CorruptError{What: "segment trailer", Segment: id, Offset: size - disk.PageBytes, Reason: disk.ReasonPlace,
			Err: fmt.Errorf("a footer of %d bytes at %d does not end with the file of %d", n, from, size)}
	}
	if b, err = p.footerBytes(ctx, id, from, n); b == nil {
		return err
	}
	_, err = disk.DecodeFooter(b, id, start, p.s.uuid, p.s.key)
	return err
}

// footerBytes reads n bytes, which may be more than a window; nil without an
// error if they are too many.
func (p *scrubPass) footerBytes(ctx context.Context, id uint64, from, n int64) ([]byte, error) {
	if n <= scrubPieceBytes {
		return p.win.bytes(ctx, id, from, int(n), 0)
	}
	if n > scrubFooterMax {
		p.count(ScrubTotals{Skipped: 1})
		return nil, nil
	}
	whole := make([]byte, 0, n)
	for int64(len(whole)) < n {
		off := from + int64(len(whole))
		b, err := p.win.bytes(ctx, id, off, int(min(scrubPieceBytes, from+n-off)), 0)
		if err != nil {
			return nil, err
		}
		whole = append(whole, b...)
	}
	return whole, nil
}

// scrubFooterMax is the largest footer that is looked at: that of some 200,000
// extents.
const scrubFooterMax = 32 << 20

func (s *Store) segmentSize(id uint64) (int64, error) {
	h, err := s.vol.Acquire(id)
	if err != nil {
		return 0, asUnreadable(err)
	}
	defer h.Release()
	info, err := h.File(false).Stat()
	return info.SizeBytes, asUnreadable(err)
}

// sidecar reads the tombstones of a segment, as far as the page cache lets go
// of them past it: they are small, and not read directly.
func (p *scrubPass) sidecar(ctx context.Context, id uint64) error {
	if err := p.turn(ctx, disk.PageBytes); err != nil {
		return err
	}
	err := p.s.vol.CheckTombstones(id)
	if vfs.IsNotExist(err) {
		if p.s.liveFrom(id, id+1) == 0 {
			return nil // a crash may have kept it from being made
		}
		return &disk.CorruptError{What: "tombstones", Segment: id, Reason: "the file is missing", Err: err}
	}
	if isDamage(err) {
		return err
	}
	return asUnreadable(err)
}
