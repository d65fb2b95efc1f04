package disk

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sealstone/sealstone/internal/vfs"
)

// ReadFooter reads the footer of a sealed segment. Errors: ErrCorrupt (with
// ReasonMagic: the segment is not sealed), ErrUnsupported, ErrNoSegment, those
// of the system.
func (v *Volume) ReadFooter(id uint64) ([]FooterEntry, error) {
	entries, err := v.readFooter(id)
	if err != nil {
		return nil, fmt.Errorf("disk: read footer: %w", err)
	}
	return entries, nil
}

func (v *Volume) readFooter(id uint64) ([]FooterEntry, error) {
	h, err := v.Acquire(id)
	if err != nil {
		return nil, err
	}
	defer h.Release()
	f := h.File(false)
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	page := make([]byte, PageBytes)
	if info.SizeBytes < 2*PageBytes || info.SizeBytes%PageBytes != 0 {
		return nil, corruptAt(id, info.SizeBytes, "segment trailer", ReasonShort, nil)
	}
	if err := readFull(f, [][]byte{page}, info.SizeBytes-PageBytes, PageBytes, false); err != nil {
		return nil, fmt.Errorf("segment %016x: %w", id, err)
	}
	start, size, err := v.trailer(page, id, info.SizeBytes)
	if err != nil {
		return nil, err
	}
	p := make([]byte, size)
	if err := readFull(f, [][]byte{p}, int64(start)*PageBytes, len(p), false); err != nil {
		return nil, fmt.Errorf("segment %016x: %w", id, err)
	}
	entries, err := DecodeFooter(p, id, start, v.o.UUID, v.o.Key)
	if err != nil {
		return nil, placed(err, SegmentName(id), id, 0)
	}
	return entries, nil
}

// trailer reads the trailer from the last page of a file of sizeBytes.
func (v *Volume) trailer(lastPage []byte, id uint64, sizeBytes int64) (start uint32, footerBytes int64, err error) {
	start, footerBytes, err = DecodeTrailer(lastPage, v.o.Key, v.o.UUID, id)
	if err != nil {
		return 0, 0, placed(err, SegmentName(id), id, sizeBytes-trailerBytes)
	}
	if int64(start)*PageBytes+footerBytes != sizeBytes {
		return 0, 0, corruptAt(id, sizeBytes-trailerBytes, "segment trailer", ReasonPlace,
			fmt.Errorf("a footer of %d bytes at page %d does not end with the file of %d", footerBytes, start, sizeBytes))
	}
	return start, footerBytes, nil
}

// ReadExtent reads the header of the extent at an address, with its header
// sum. The caller compares the sum with what the index holds. Errors:
// ErrCorrupt, ErrUnsupported, ErrNoSegment, those of the system.
func (v *Volume) ReadExtent(at Address) (*Extent, uint64, error) {
	h, err := v.Acquire(at.Segment)
	if err != nil {
		return nil, 0, err
	}
	defer h.Release()
	p, err := v.readHeaderPages(h.File(false), at)
	if err == nil {
		var e *Extent
		var sum uint64
		if e, sum, err = v.decodeAt(p, at); err == nil {
			return e, sum, nil
		}
	}
	return nil, 0, fmt.Errorf("disk: read extent at %v: %w", at, err)
}

// readHeaderPages reads the pages that the header at an address claims.
func (v *Volume) readHeaderPages(f vfs.File, at Address) ([]byte, error) {
	first := make([]byte, PageBytes)
	if err := v.readPages(f, first, at); err != nil {
		return nil, err
	}
	n, err := PeekExtent(first)
	if err != nil {
		return nil, placed(err, SegmentName(at.Segment), at.Segment, at.Offset())
	}
	if n == 1 {
		return first, nil
	}
	p := make([]byte, n*PageBytes)
	return p, v.readPages(f, p, at)
}

// readPages fills p from an address; the end of the file inside is damage.
func (v *Volume) readPages(f vfs.File, p []byte, at Address) error {
	err := readFull(f, [][]byte{p}, at.Offset(), len(p), false)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return corruptAt(at.Segment, at.Offset(), "extent header", ReasonShort, err)
	}
	return err
}

// decodeAt decodes a header and wants it to name this store and place.
func (v *Volume) decodeAt(p []byte, at Address) (*Extent, uint64, error) {
	e, sum, err := DecodeExtent(p, v.o.Key)
	if err != nil {
		return nil, 0, placed(err, SegmentName(at.Segment), at.Segment, at.Offset())
	}
	if e.StoreUUID != v.o.UUID || e.Address != at {
		return nil, 0, corruptAt(at.Segment, at.Offset(), "extent header", ReasonPlace,
			fmt.Errorf("it is of %v of store %x", e.Address, e.StoreUUID))
	}
	return e, sum, nil
}

// ScanSegment walks over the extents of a segment, sealed or not, from page 1
// on, and calls fn with each header that is valid in its place; the payload is
// not read. Where a page is no header, each following page is tried: headers
// are keyed and bound to their place, so nothing in a payload passes for one.
// The walk ends at the footer or the end of the file. An extent that the file
// cuts short is passed over.
//
// An error of fn ends the walk and is returned as it is; other errors: the
// context's, ErrNoSegment, ErrUnsupported, those of the system.
func (v *Volume) ScanSegment(ctx context.Context, id uint64, fn func(e *Extent, headerSum uint64, at Address) error) error {
	return v.scanFrom(ctx, id, 1, fn)
}

// scanFrom is ScanSegment from a page on at which an extent begins or ends.
func (v *Volume) scanFrom(ctx context.Context, id uint64, page uint32, fn func(e *Extent, headerSum uint64, at Address) error) error {
	h, err := v.Acquire(id)
	if err != nil {
		return err
	}
	defer h.Release()
	s, err := v.newScan(h)
	if err != nil {
		return fmt.Errorf("disk: scan segment %016x: %w", id, err)
	}
	defer s.win.free()
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("disk: scan segment %016x: %w", id, context.Cause(ctx))
		}
		e, sum, next, err := s.step(page)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("disk: scan segment %016x: %w", id, err)
		}
		if e != nil {
			if err := fn(e, sum, e.Address); err != nil {
				return err
			}
		}
		page = next
	}
}
