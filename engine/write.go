package engine

import (
	"context"
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
)

// errAbandonedPut: the caller left before its bytes were copied.
var errAbandonedPut = fmt.Errorf("engine: caller left: %w", context.DeadlineExceeded)

// placed is an extent that was appended.
type placed struct {
	seg    *segment
	extent index.Extent
	entry  disk.FooterEntry
}

// appendExtent writes an image into the active segment of a class. On success
// the segment counts it as in flight until logged or given up. errFull asks
// for a roll.
func (s *Store) appendExtent(class uint8, img *image) (placed, error) {
	it := &putItem{img: img}
	seg, _, err := s.reserveAll(class, []*putItem{it})
	if err != nil {
		return placed{}, err
	}
	s.writeItems(seg, []*putItem{it})
	return it.placed, it.err
}

// encodeHeader writes the header of an image, whose place is known, in front
// of it.
func (s *Store) encodeHeader(img *image) (placed, error) {
	ext := &img.ext
	sum, err := disk.EncodeExtent(img.bytes()[:int(ext.HeaderPages)*disk.PageBytes], ext, s.key)
	if err != nil {
		return placed{}, err
	}
	return placed{extent: index.Extent{
		Address: ext.Address, HeaderPages: ext.HeaderPages, Pages: uint32(ext.Pages()), HeaderSum: sum,
	}, entry: disk.EntryOf(ext, sum)}, nil
}

// reserveAll takes neighbouring room in the active segment of a class, for n
// images from the first on. When that is full it is closed to new extents,
// and the error is errFull until roll has made another.
func (s *Store) reserveAll(class uint8, items []*putItem) (seg *segment, n int, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrReadOnly, s.broken)
	}
	if seg = s.active[class]; seg == nil {
		return nil, 0, errFull
	}
	for n < len(items) {
		ext := &items[n].img.ext
		page, ok := seg.writer.Reserve(ext.Pages(), disk.FooterEntryBytes(len(ext.Hash), len(ext.Parent)))
		if !ok {
			s.retireLocked(seg)
			return seg, n, errFull
		}
		ext.Address = disk.Address{Segment: seg.id, Page: page}
		seg.inflight++
		n++
	}
	return seg, n, nil
}

// giveUp ends the reservation of an extent that was not written whole.
func (s *Store) giveUp(seg *segment, page uint32) {
	_ = seg.writer.Done(page, nil)
	s.mu.Lock()
	seg.inflight--
	s.mu.Unlock()
}

// writeFailed turns a failed extent write into the put's error: without room
// on the disk it is shed, and the store goes on.
func (s *Store) writeFailed(err error) error {
	if isNoSpace(err) {
		s.noSpace(err)
		return fmt.Errorf("%w: no room on the disk: %w", ErrShed, err)
	}
	return fmt.Errorf("engine: write extent: %w", err)
}
