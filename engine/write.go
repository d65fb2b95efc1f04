package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers/disk"
)

// errAbandonedPut: the caller left before its bytes were copied.
var errAbandonedPut = fmt.Errorf("engine: caller left: %w", context.DeadlineExceeded)

// build copies and hashes a block into an image of its own. Memory for it is
// not waited for: a put that finds none is shed.
func (p *putBatch) build(it *putItem, seq uint64) (*image, error) {
	b := &p.blocks[it.i]
	img := &image{ext: p.n.extentOf(b, it.planes, seq, it.depth)}
	buf, err := p.s.pool.TryGet(img.ext.Pages() * disk.PageBytes)
	if err != nil {
		if errors.Is(err, aligned.ErrExhausted) {
			return nil, fmt.Errorf("%w: %d bytes of puts and gets are in flight (MaxInflightBytes): %w", ErrShed, p.s.o.MaxInflightBytes, err)
		}
		return nil, fmt.Errorf("%w: buffer for a put: %w", ErrShed, err)
	}
	img.buf = buf
	if !p.op.enter() {
		img.free()
		return nil, errAbandonedPut
	}
	img.fill(it.planes)
	p.op.exit()
	return img, nil
}

// write appends the extent of a block, or an alias to an equal one, to the
// active segment. Nothing refers to it yet.
func (p *putBatch) write(ctx context.Context, it *putItem) error {
	s := p.s
	s.mu.Lock()
	seq, err := s.nextSeqLocked()
	full := s.pendingBytes > s.o.MaxPendingBytes
	s.mu.Unlock()
	if err != nil {
		return err
	}
	if full {
		kick(s.kickSync)
		return fmt.Errorf("%w: more than %d bytes are not applied to the index yet (MaxPendingBytes)", ErrShed, s.o.MaxPendingBytes)
	}
	if s.logFull() {
		kick(s.kickSync)
		return fmt.Errorf("%w: the log is at its limit of %d bytes until the index is flushed", ErrShed, s.room.logBytes)
	}
	img, err := p.build(it, seq)
	if err != nil {
		return err
	}
	defer img.free()
	if err := img.checkSeal(&p.blocks[it.i]); err != nil {
		return err
	}
	target, err := s.shareable(ctx, it, img)
	if err != nil {
		return err
	}
	if target != nil {
		img.ext.Kind, img.ext.Target = disk.KindAlias, target.Address
		img.ext.PayloadPages = 0
	}
	s.o.private.points("put:before-write")
	place, err := s.appendExtent(ctx, classFresh, img)
	if err != nil {
		s.endGuest(&it.shared)
		return err
	}
	it.seg, it.page, it.bytes, it.entry = place.seg, place.extent.Address.Page, place.extent.Bytes(), place.entry
	e := index.Entry{Extent: place.extent, ContentID: img.ext.ContentID, Seq: seq, Depth: it.depth, RawBytes: img.ext.RawBytes()}
	if target != nil {
		e.Extent, e.Own = *target, place.extent
	}
	it.rec = &record{Kind: recordPut, Key: it.key, Entry: e}
	return nil
}

// placed is an extent that was appended.
type placed struct {
	seg    *segment
	extent index.Extent
	entry  disk.FooterEntry
}

// appendExtent writes an image into the active segment of a class. On success
// the segment counts it as in flight until logged or given up.
func (s *Store) appendExtent(ctx context.Context, class uint8, img *image) (placed, error) {
	ext := &img.ext
	seg, page, err := s.reserve(ctx, class, ext)
	if err != nil {
		return placed{}, err
	}
	ext.Address = disk.Address{Segment: seg.id, Page: page}
	all := img.bytes()
	header := all[:int(ext.HeaderPages)*disk.PageBytes]
	clear(header)
	sum, err := disk.EncodeExtent(header, ext, s.key)
	if err != nil {
		s.giveUp(seg, page)
		return placed{}, err
	}
	if err := seg.writer.WriteAt(page, all); err != nil {
		s.giveUp(seg, page)
		s.retire(seg)
		return placed{}, s.writeFailed(err)
	}
	entry := disk.EntryOf(ext, sum)
	if err := seg.writer.Done(page, &entry); err != nil {
		s.giveUp(seg, page)
		return placed{}, err
	}
	s.count.writtenBytes.Add(int64(len(all)))
	return placed{seg, index.Extent{
		Address: ext.Address, HeaderPages: ext.HeaderPages, Pages: uint32(ext.Pages()), HeaderSum: sum,
	}, entry}, nil
}

// reserve takes room in the active segment of a class, making a new one when
// it is full.
func (s *Store) reserve(ctx context.Context, class uint8, ext *disk.Extent) (*segment, uint32, error) {
	need := disk.FooterEntryBytes(len(ext.Hash), len(ext.Parent))
	for {
		s.mu.Lock()
		if s.broken != nil {
			err := s.broken
			s.mu.Unlock()
			return nil, 0, fmt.Errorf("%w: %w", ErrReadOnly, err)
		}
		seg := s.active[class]
		if seg != nil {
			if page, ok := seg.writer.Reserve(ext.Pages(), need); ok {
				seg.inflight++
				s.mu.Unlock()
				return seg, page, nil
			}
			s.retireLocked(seg)
		}
		s.mu.Unlock()
		if err := s.roll(ctx, class); err != nil {
			return nil, 0, err
		}
	}
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
