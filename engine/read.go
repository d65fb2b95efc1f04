package engine

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/disk"
)

// readTriesMax is how often a block that does not verify is read again, past
// the page cache, before it is called corrupt: memory and drivers make
// mistakes that the next read does not repeat.
const readTriesMax = 3

// takeBuffer is where the memory of a read comes from: Pool.Get, or TryGet for
// those who hold a buffer already and must not wait for a second one.
type takeBuffer func(ctx context.Context, sizeBytes int) (*aligned.Buffer, error)

func (s *Store) tryBuffer(_ context.Context, sizeBytes int) (*aligned.Buffer, error) {
	return s.pool.TryGet(sizeBytes)
}

// rawRead reads n bytes of an extent from byte offset off into a buffer of
// the store.
func (s *Store) rawRead(ctx context.Context, path *ioPath, take takeBuffer, e index.Extent, off, n int64) (*aligned.Buffer, error) {
	buf, err := take(ctx, int(n))
	if err != nil {
		return nil, err
	}
	if err := s.readInto(ctx, path, buf.Bytes()[:n], e, off); err != nil {
		buf.Free()
		return nil, err
	}
	return buf, nil
}

// readInto fills p, aligned memory of the store, from byte offset off of an
// extent. The memory belongs to the reader until it answers, so the call is
// not bounded by the caller's context: who wants to leave earlier leaves the
// operation (see run).
func (s *Store) readInto(ctx context.Context, path *ioPath, p []byte, e index.Extent, off int64) error {
	h, err := s.vol.Acquire(e.Address.Segment)
	if err != nil {
		return err
	}
	defer h.Release()
	if path.dropsCache {
		_ = h.File(false).DropCache(e.Address.Offset()+off, int64(len(p))) // a hint
	}
	items := []tiers.Item{{
		File: h, Offset: e.Address.Offset() + off, Length: len(p),
		Spans: [][]byte{p}, OffHeap: true, WaitForDevice: true,
	}}
	err = s.readBatch(context.WithoutCancel(ctx), path, items)
	if err == nil {
		err = items[0].Err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) { // the file was cut
		return s.corruptAt(e, off, "the segment ends inside the extent", err)
	}
	return err
}

// readBatch hands reads to a path. Their segments are held open.
func (s *Store) readBatch(ctx context.Context, path *ioPath, items []tiers.Item) error {
	s.o.private.points("read:acquired")
	return s.paths.read(ctx, path, items)
}

func (s *Store) corruptAt(e index.Extent, off int64, reason string, err error) error {
	return &BlockError{Status: StatusCorrupt, File: disk.SegmentName(e.Address.Segment), Offset: e.Address.Offset() + off, Reason: reason, Err: err}
}

// decodeHeader verifies an extent's header against the index.
func (s *Store) decodeHeader(p []byte, e index.Extent) (*disk.Extent, error) {
	ext, err := disk.DecodeExtentExpect(p, s.key, e.HeaderSum, e.Address, s.uuid)
	if err != nil && canaryLaw1 {
		if ext, _, err = disk.DecodeExtent(p, s.key); err != nil {
			return nil, s.corruptAt(e, 0, "header", err)
		}
	}
	if err != nil {
		return nil, s.corruptAt(e, 0, "header", err)
	}
	if uint32(ext.Pages()) != e.Pages || ext.HeaderPages != e.HeaderPages {
		return nil, s.corruptAt(e, 0, fmt.Sprintf("header says %d+%d pages, the index %d+%d",
			ext.HeaderPages, ext.PayloadPages, e.HeaderPages, e.Pages-uint32(e.HeaderPages)), nil)
	}
	return ext, nil
}

// verifyChunks compares the stored bytes of chunks first to last (not
// including) with their sums; payload begins at byte offset base of the
// extent's payload. Chunks that are stored as they are, are verified with
// that; of others the raw bytes still are to be, behind the decoder.
func (s *Store) verifyChunks(ext *disk.Extent, e index.Extent, payload []byte, base int64, first, last int) (err error) {
	raw := int64(0)
	ext.EachChunk(first, last, func(c disk.StoredChunk) bool {
		p := payload[c.PayloadOff-base:][:c.StoredLen]
		if verr := disk.VerifyStored(p, ext.Codec, ext.Chunks[c.Index], c.RawLen); verr != nil && !canaryLaw1 {
			err = s.chunkCorrupt(ext, e, c.Index, c.PayloadOff, verr)
		}
		raw += int64(c.RawLen)
		return err == nil
	})
	if err == nil {
		s.count.verifiedBytes.Add(raw)
	}
	return err
}

// chunkCorrupt is the error of chunk i, at off in the payload.
func (s *Store) chunkCorrupt(ext *disk.Extent, e index.Extent, i int, off int64, cause error) error {
	return s.corruptAt(e, int64(e.HeaderPages)*disk.PageBytes+off, fmt.Sprintf("chunk %d of %d: %s", i, len(ext.Chunks), chunkReason(cause)), nil)
}

// chunkBytes is the raw size of chunks first to last (not including).
func chunkBytes(ext *disk.Extent, first, last int) (n int64) {
	ext.EachChunk(first, last, func(c disk.StoredChunk) bool {
		n += int64(c.RawLen)
		return true
	})
	return n
}

// readExtent reads a whole extent and verifies all of it.
func (s *Store) readExtent(ctx context.Context, take takeBuffer, e index.Extent) (*image, error) {
	return s.readExtentAgain(ctx, take, e, nil)
}

// readExtentAgain is readExtent; bad is a path whose read did not verify.
func (s *Store) readExtentAgain(ctx context.Context, take takeBuffer, e index.Extent, bad *ioPath) (img *image, err error) {
	err = s.retryCorrupt(bad, func(path *ioPath) error {
		img, err = s.readExtentOnce(ctx, path, take, e)
		return err
	})
	return img, err
}

func (s *Store) readExtentOnce(ctx context.Context, path *ioPath, take takeBuffer, e index.Extent) (*image, error) {
	buf, err := s.rawRead(ctx, path, take, e, 0, e.Bytes())
	if err != nil {
		return nil, err
	}
	img, err := s.verifyWhole(buf, e)
	if err != nil {
		buf.Free()
		return nil, err
	}
	return img, nil
}

func (s *Store) verifyWhole(buf *aligned.Buffer, e index.Extent) (*image, error) {
	ext, err := s.decodeHeader(buf.Bytes(), e)
	if err != nil {
		return nil, err
	}
	img := &image{ext: *ext, buf: buf}
	if err := s.verifyChunks(ext, e, img.payload(), 0, 0, len(ext.Chunks)); err != nil {
		return nil, err
	}
	return img, nil
}

// retryCorrupt repeats a read whose bytes did not verify; with bad there was
// one before that, by this path. What a path returns wrong to the last is tried
// by the others: if one of them brings it, it is the path that is bad and not
// the block.
func (s *Store) retryCorrupt(bad *ioPath, read func(*ioPath) error) error {
	path, tries := s.paths.useFor(1), 0
	if bad != nil {
		path, tries = bad, 1
		s.count.rereads.Add(1)
	}
	err := read(path)
	for ; errors.Is(err, ErrCorrupt); err = read(path) {
		if tries++; tries >= readTriesMax {
			break
		}
		s.count.rereads.Add(1)
	}
	if err == nil && tries > 0 && bad == nil {
		s.count.rereadsSaved.Add(1)
	}
	if !errors.Is(err, ErrCorrupt) {
		return err
	}
	for _, other := range s.paths.others(path) {
		s.count.rereads.Add(1)
		if read(other) == nil {
			s.demotePath(path, other.name, err)
			if bad == nil {
				s.count.rereadsSaved.Add(1)
			}
			return nil
		}
	}
	return err
}
