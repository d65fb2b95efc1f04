package engine

import (
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

// verify settles one block of a fetch that was read: delivered, or, if the
// request does not fit it, refused. One that did not verify, or is stored in
// another way than was planned, stays unsettled and is read again by itself.
func (f *flight) verify(i int) {
	w := f.wants[i]
	ok, err := f.tryVerify(i, w)
	if ok {
		return
	}
	if f.straight {
		f.clearSpans(i) // unverified bytes must not stay with the caller
	}
	switch {
	case errors.Is(err, ErrCorrupt):
		// Somebody else may write to guarded memory: what is found there says
		// nothing of the path, and the reads that count begin now.
		if w.changed = f.straight && w.guarded; !w.changed {
			w.corruptBy = f.path
		}
	case err != nil && !errors.Is(err, errNeedsRoom):
		f.g.failed(w, err, f.inside)
	}
}

func (f *flight) tryVerify(i int, w *want) (ok bool, err error) {
	g, e := f.g, w.found.entry
	header := f.header(i)
	ext, err := g.s.decodeHeader(header, e.Extent)
	if err != nil {
		return false, err
	}
	if err := g.s.checkOwner(ext, g.keys[w.i], e); err != nil {
		return false, err
	}
	if g.heads != nil {
		g.headArrived(w, ext)
		return true, nil
	}
	if (f.straight || f.pieces != nil || f.parts != nil) && !w.asPlanned(ext) {
		return false, nil
	}
	if f.loan != nil {
		return f.tryLend(w, ext, len(header))
	}
	spans, err := locateParts(g.n, w.parts, ext)
	if err != nil {
		return false, err
	}
	switch {
	case f.pieces != nil:
		err = f.verifyRuns(w, ext, spans)
	case f.straight:
		err = f.verifyStraight(i, w, ext)
	case f.parts != nil:
		if err = g.s.compareSums(ext, e.Extent, f.got); err == nil {
			payload := f.extent(w)[len(header):]
			err = g.deliverVerified(w, ext, spans, payload, f.inside)
		}
	default:
		payload := f.extent(w)[len(header):]
		err = g.deliverWhole(w, ext, spans, payload, f.inside)
	}
	return err == nil, err
}

// tryLend verifies a block and lends it where it was read to.
func (f *flight) tryLend(w *want, ext *disk.Extent, head int) (ok bool, err error) {
	if f.parts != nil {
		if err := f.g.s.compareSums(ext, w.found.entry.Extent, f.got); err != nil {
			return false, err
		}
	}
	room := f.extent(w)
	if f.apart {
		room = f.buf.Bytes()
	}
	err = f.g.lendWhole(w, ext, room[head:], f.loan, f.parts != nil)
	return err == nil, err
}

// asPlanned: the block is stored raw, with the planes that were expected.
func (w *want) asPlanned(ext *disk.Extent) bool {
	if ext.Codec != disk.CodecRaw || len(ext.Planes) != len(w.planeBytes) {
		return false
	}
	for i := range ext.Planes {
		if ext.Planes[i].RawBytes != w.planeBytes[i] {
			return false
		}
	}
	return true
}

// header is the header of want i as read.
func (f *flight) header(i int) []byte {
	w, buf := f.wants[i], f.buf.Bytes()
	n := int(w.found.entry.HeaderPages) * disk.PageBytes
	switch {
	case f.pieces != nil:
		return f.within(buf, 0, int64(n))
	case !f.straight:
		return f.extent(w)[:n]
	}
	at := 0
	for _, before := range f.wants[:i] {
		at += int(before.found.entry.HeaderPages) * disk.PageBytes
		for _, size := range before.planeBytes {
			if size%disk.PageBytes != 0 {
				at += disk.PageBytes
			}
		}
	}
	return buf[at : at+n]
}

// extent is a block's extent within what neighbours were read into.
func (f *flight) extent(w *want) []byte {
	e := &w.found.entry
	return f.buf.Bytes()[int(e.Address.Page-f.from)*disk.PageBytes:][:e.Bytes()]
}

// verifyRuns verifies and delivers the chunks that hold the parts.
func (f *flight) verifyRuns(w *want, ext *disk.Extent, spans []chunkSpan) error {
	e, verified := w.found.entry, int64(0)
	head := int64(e.HeaderPages) * disk.PageBytes
	buf := f.buf.Bytes()
	for _, sp := range spans {
		run := f.within(buf, head+sp.off, sp.len)
		if err := f.g.s.verifyChunks(ext, e.Extent, run, sp.off, sp.first, sp.last); err != nil {
			return err
		}
		verified += chunkBytes(ext, sp.first, sp.last)
	}
	run := func(j int) []byte { return f.within(buf, head+spans[j].off, spans[j].len) }
	return f.g.deliver(w, ext, spans, run, verified, f.inside)
}

// verifyStraight verifies the planes where they are, in the caller's spans.
func (f *flight) verifyStraight(i int, w *want, ext *disk.Extent) error {
	g := f.g
	var err error
	if f.parts != nil {
		err = g.s.compareSums(ext, w.found.entry.Extent, f.got)
	} else {
		err = g.touch(w, func() error { return f.verifySpans(i, w, ext) })
	}
	if err != nil {
		return err
	}
	g.s.o.private.points("get:verified")
	if err := g.touch(w, func() error { f.copyTails(i); return nil }); err != nil {
		return err
	}
	g.s.count.straightBytes.Add(ext.RawBytes())
	g.arrived(w, ext, ext.RawBytes(), ext.RawBytes())
	f.keepStraight(i, w, ext)
	return nil
}

// copyTails brings the planes' broken last pages to the caller.
func (f *flight) copyTails(i int) {
	for p := range f.planes[i] {
		copy(f.planes[i][p].rest, f.planes[i][p].tail)
	}
}

func (f *flight) verifySpans(i int, w *want, ext *disk.Extent) error {
	e, chunk := w.found.entry, 0
	for p := range f.planes[i] {
		pl := &f.planes[i][p]
		cursor := spanCursor{spans: pl.spans, tail: pl.tail}
		for left := ext.Planes[p].RawBytes; left > 0; left -= sums.ChunkBytes {
			got := sums.ChunkOver(cursor.next(int(min(left, sums.ChunkBytes))))
			if got != ext.Chunks[chunk].RawSum && !canaryLaw1 {
				_, off, _ := ext.ChunkSpan(chunk)
				return f.g.s.chunkCorrupt(ext, e.Extent, chunk, off, fmt.Errorf("sum %016x, the header says %016x", got, ext.Chunks[chunk].RawSum))
			}
			chunk++
		}
	}
	f.g.s.count.verifiedBytes.Add(ext.RawBytes())
	return nil
}

// clearSpans takes what was read back out of the caller's memory.
func (f *flight) clearSpans(i int) {
	if canaryLaw2 {
		return
	}
	for p := range f.planes[i] {
		f.wants[i].clear(f.planes[i][p].spans)
		f.wants[i].clear([][]byte{f.planes[i][p].rest})
	}
}

// spanCursor walks over spans, and a tail behind them, a chunk at a time.
type spanCursor struct {
	spans [][]byte
	tail  []byte
	skip  int // bytes of spans[0] that are behind
	out   [8][]byte
	more  [][]byte
}

// next returns the next n bytes, in as many pieces as they lie in. They are
// valid until the next call.
func (c *spanCursor) next(n int) [][]byte {
	out := c.out[:0]
	if c.more != nil {
		out = c.more[:0]
	}
	for n > 0 {
		if len(c.spans) == 0 {
			if len(c.tail) == 0 {
				break
			}
			c.spans, c.tail = [][]byte{c.tail}, nil
		}
		s := c.spans[0][c.skip:]
		take := min(n, len(s))
		out = append(out, s[:take])
		n -= take
		if c.skip += take; take == len(s) {
			c.spans, c.skip = c.spans[1:], 0
		}
	}
	if len(out) > len(c.out) {
		c.more = out
	}
	return out
}
