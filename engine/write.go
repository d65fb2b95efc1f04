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
	place, target, err := p.place(ctx, it, img)
	if err != nil {
		return err
	}
	it.seg, it.page, it.bytes, it.entry = place.seg, place.extent.Address.Page, place.extent.Bytes(), place.entry
	e := index.Entry{Extent: place.extent, Content: index.TagOf(img.ext.ContentID), Seq: seq, Depth: it.depth, RawBytes: img.ext.RawBytes()}
	if target != nil {
		e.Extent, e.Own = *target, place.extent
	}
	it.rec = &record{Kind: recordPut, Key: it.key, Entry: e, ContentID: img.ext.ContentID}
	return nil
}

// errFull: the active segment is full, and a new one is to be made first.
var errFull = errors.New("engine: active segment is full")

// place appends the image, or an alias in its stead. To make a new segment it
// may have to wait for an eviction, which in turn waits for guests of its
// victim and for extents there that are not logged: so the batch shares
// nothing and has nothing unlogged while it waits.
func (p *putBatch) place(ctx context.Context, it *putItem, img *image) (placed, *index.Extent, error) {
	s, pages := p.s, img.ext.PayloadPages
	for {
		target, err := s.shareable(ctx, it, img)
		if err != nil {
			return placed{}, nil, err
		}
		if target != nil {
			img.ext.Kind, img.ext.Target, img.ext.PayloadPages = disk.KindAlias, target.Address, 0
		}
		s.o.private.points("put:before-write")
		place, err := s.appendExtent(classFresh, img)
		if err == nil {
			if target != nil {
				s.count.putShared.Add(1)
			}
			return place, target, nil
		}
		s.endGuest(&it.shared)
		if !errors.Is(err, errFull) {
			return placed{}, nil, err
		}
		p.commitWritten()
		if err := s.roll(ctx, classFresh); err != nil {
			return placed{}, nil, err
		}
		img.ext.Kind, img.ext.Target, img.ext.PayloadPages = disk.KindFull, disk.Address{}, pages
	}
}

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
	ext := &img.ext
	seg, page, err := s.reserve(class, ext)
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

// reserve takes room in the active segment of a class. When that is full it
// is closed to new extents, and the error is errFull until roll has made
// another.
func (s *Store) reserve(class uint8, ext *disk.Extent) (*segment, uint32, error) {
	need := disk.FooterEntryBytes(len(ext.Hash), len(ext.Parent))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return nil, 0, fmt.Errorf("%w: %w", ErrReadOnly, s.broken)
	}
	seg := s.active[class]
	if seg == nil {
		return nil, 0, errFull
	}
	page, ok := seg.writer.Reserve(ext.Pages(), need)
	if !ok {
		s.retireLocked(seg)
		return nil, 0, errFull
	}
	seg.inflight++
	return seg, page, nil
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
