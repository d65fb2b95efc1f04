package disk

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/sealstone/sealstone/internal/sums"
)

// ChunkVerify compares the raw chunks [first, last) of an uncompressed extent
// with its chunk table and returns the index of the first bad one, or -1.
// payload begins with the first byte of chunk first, as ChunkSpan gives it,
// and holds what lies on disk up to the last byte of chunk last-1, padding
// between planes included. A chunk that payload cuts short is bad, and so is
// one that does not exist.
func ChunkVerify(e *Extent, payload []byte, first, last int) (badChunk int) {
	_, base, _ := e.ChunkSpan(first)
	for i := first; i < last; i++ {
		plane, off, n := e.ChunkSpan(i)
		off -= base
		if plane < 0 || i >= len(e.Chunks) || off < 0 || off+int64(n) > int64(len(payload)) {
			return i
		}
		if sums.Chunk(payload[off:off+int64(n)]) != e.Chunks[i].RawSum {
			return i
		}
	}
	return -1
}

// VerifyExtent reads a whole extent in pieces of at most 1 MiB and checks it:
// the header against the index's header sum want, every chunk against its
// sums, stored and raw, the padding for zeros. An alias has its header only. A nil
// error is the only good answer; ErrCorrupt says that the bytes are bad, any
// other error that they could not be judged.
func (v *Volume) VerifyExtent(ctx context.Context, at Address, want uint64) error {
	r, err := v.NewVerifier(at.Segment)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = r.Verify(ctx, at, want)
	return err
}

// expectHeader reads the header of the extent and compares it with want.
func (v *Volume) expectHeader(win *window, at Address, want uint64) (*Extent, error) {
	short := func(err error) error {
		if err != io.EOF {
			return err
		}
		return corruptAt(at.Segment, at.Offset(), "extent header", ReasonShort, nil)
	}
	p, err := win.bytes(at.Offset(), PageBytes)
	if err != nil {
		return nil, short(err)
	}
	n, err := PeekExtent(p)
	if err != nil {
		return nil, placed(err, SegmentName(at.Segment), at.Segment, at.Offset())
	}
	if p, err = win.bytes(at.Offset(), n*PageBytes); err != nil {
		return nil, short(err)
	}
	e, err := DecodeExtentExpect(p, v.o.Key, want, at, v.o.UUID)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", SegmentName(at.Segment), err)
	}
	return e, nil
}

// verifyPayload checks the chunks and the padding behind each plane.
func verifyPayload(ctx context.Context, win *window, e *Extent) (err error) {
	if e.Kind == KindAlias {
		return nil
	}
	var raw []byte // room to decode into
	if e.Codec != CodecRaw {
		raw = make([]byte, sums.ChunkBytes)
	}
	base := e.Address.Offset() + int64(e.HeaderPages)*PageBytes
	e.EachChunk(0, len(e.Chunks), func(c StoredChunk) bool {
		if err = context.Cause(ctx); err == nil {
			err = verifyChunk(win, e, c, base, raw)
		}
		return err == nil
	})
	return err
}

// verifyChunk checks one chunk, stored and raw, and what fills up its last
// page.
func verifyChunk(win *window, e *Extent, c StoredChunk, base int64, raw []byte) error {
	off := base + c.PayloadOff
	bad := func(reason string, err error) error {
		return corruptAt(e.Address.Segment, off, fmt.Sprintf("chunk %d", c.Index), reason, err)
	}
	stored, padding, err := win.chunk(off, c)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return bad(ReasonShort, nil)
	}
	if err != nil {
		return err
	}
	if e.Codec == CodecRaw {
		if got := sums.Chunk(stored); got != e.Chunks[c.Index].RawSum {
			return bad(ReasonSum, fmt.Errorf("want %016x, computed %016x", e.Chunks[c.Index].RawSum, got))
		}
	} else if err := DecodeChunk(raw[:c.RawLen], stored, e.Codec, e.Chunks[c.Index], c.RawLen); err != nil {
		var ce *CorruptError
		if errors.As(err, &ce) {
			return bad(ce.Reason, ce.Err)
		}
		return err
	}
	if !allZero(padding) {
		return bad(ReasonField, errors.New("padding is not zero"))
	}
	return nil
}

// chunk returns the stored bytes of a chunk that begins at off in the file,
// and what stands behind it up to the page's end where it ends its plane.
func (w *window) chunk(off int64, c StoredChunk) (stored, padding []byte, err error) {
	skip := off & (PageBytes - 1)
	end := skip + int64(c.StoredLen)
	p, err := w.bytes(off-skip, int(pages(end)*PageBytes))
	if err != nil {
		return nil, nil, err
	}
	if c.EndsPlane {
		padding = p[end:]
	}
	return p[skip:end], padding, nil
}
