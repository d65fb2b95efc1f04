package disk

import (
	"encoding/binary"
	"errors"
	"io"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/vfs"
)

// window is a piece of a file in memory, moved along as a scan goes on. It
// reads past the page cache where it can.
type window struct {
	buffered, direct vfs.File
	buf              *aligned.Buffer
	sizeBytes        int64 // of the file, whole pages
	from, to         int64 // what is loaded
	refused          func(err error)
	// sparse: what is asked for may lie far apart. More than that is read only
	// where it follows closely on what was asked for before, up to last.
	sparse bool
	last   int64
}

// nearBytes is how far a sparse window's next question may lie behind the one
// before, and still be worth reading ahead.
const nearBytes = 64 << 10

// newWindow makes a window on an open segment.
func (v *Volume) newWindow(h *Handle) (*window, error) {
	info, err := h.File(false).Stat()
	if err != nil {
		return nil, err
	}
	buf, err := v.o.Pool.TryGet(readPieceBytes)
	if err != nil {
		// Scans are few; one more mapping of 1 MiB is better than to wait
		// for readers.
		buf, err = aligned.Alloc(readPieceBytes)
	}
	if err != nil {
		return nil, err
	}
	return &window{
		buffered: h.File(false), direct: h.File(true), buf: buf,
		sizeBytes: info.SizeBytes &^ (PageBytes - 1),
		refused:   func(err error) { v.refuseDirect("scan: " + err.Error()) },
	}, nil
}

func (w *window) free() { w.buf.Free() }

// bytes returns [off, off+n) of the file; off is at a page and n at most
// readPieceBytes. What it returns is valid until the next call. io.EOF: the
// file ends before off+n.
func (w *window) bytes(off int64, n int) ([]byte, error) {
	if off+int64(n) > w.sizeBytes {
		return nil, io.EOF
	}
	ahead := readPieceBytes
	if w.sparse && (off < w.last || off-w.last > nearBytes) {
		ahead = n
	}
	w.last = off + int64(n)
	if off < w.from || off+int64(n) > w.to {
		err := w.load(off, int(min(int64(ahead), w.sizeBytes-off)))
		if err != nil && ahead > n { // a sector behind what is asked for may be lost
			err = w.load(off, n)
		}
		if err != nil {
			return nil, err
		}
	}
	return w.buf.Bytes()[off-w.from:][:n], nil
}

func (w *window) load(off int64, n int) error {
	p := w.buf.Bytes()[:n]
	w.from, w.to = 0, 0
	err := io.ErrNoProgress
	if w.direct != nil {
		if err = readFull(w.direct, [][]byte{p}, off, n, true); isRefusal(err) {
			w.refused(err)
			w.direct = nil
		}
	}
	if w.direct == nil {
		err = readFull(w.buffered, [][]byte{p}, off, n, false)
	}
	if err == nil {
		w.from, w.to = off, off+int64(n)
	}
	return err
}

// scan is a walk over one segment.
type scan struct {
	v   *Volume
	id  uint64
	win *window
}

func (v *Volume) newScan(h *Handle) (*scan, error) {
	win, err := v.newWindow(h)
	return &scan{v: v, id: h.ID(), win: win}, err
}

// step looks at one page: the extent that begins there, if any, and the page
// to look at next. io.EOF: the walk is over.
func (s *scan) step(page uint32) (e *Extent, sum uint64, next uint32, err error) {
	at := Address{s.id, page}
	p, err := s.win.bytes(at.Offset(), PageBytes)
	if err != nil {
		return nil, 0, 0, err
	}
	if IsFooterPage(p) && s.isFooter(page) {
		return nil, 0, 0, io.EOF
	}
	n, err := PeekExtent(p)
	if err != nil {
		// Whatever it says is not proven by a sum: it may be payload.
		return nil, 0, page + 1, nil
	}
	if p, err = s.win.bytes(at.Offset(), n*PageBytes); err == io.EOF {
		return nil, 0, page + 1, nil
	} else if err != nil {
		return nil, 0, 0, err
	}
	e, sum, err = s.v.decodeAt(p, at)
	switch {
	case errors.Is(err, ErrCorrupt):
		return nil, 0, page + 1, nil
	case err != nil:
		return nil, 0, 0, err
	}
	end := int64(page) + int64(e.Pages())
	if end*PageBytes > s.win.sizeBytes {
		return nil, 0, page + 1, nil
	}
	return e, sum, uint32(end), nil
}

// isFooter proves the footer at page. Its place is compared before its length
// is believed and that much read: payload must not make a walk read a segment
// over and over.
func (s *scan) isFooter(page uint32) bool {
	at := Address{s.id, page}
	p, err := s.win.bytes(at.Offset(), PageBytes)
	if err != nil {
		return false
	}
	le := binary.LittleEndian
	if [16]byte(p[footUUIDOffset:]) != s.v.o.UUID || le.Uint64(p[footSegmentOffset:]) != s.id ||
		le.Uint32(p[footPageOffset:]) != page {
		return false
	}
	n, err := FooterPages(p)
	if err != nil || at.Offset()+int64(n)*PageBytes > s.win.sizeBytes {
		return false
	}
	whole := make([]byte, n*PageBytes)
	if err := readFull(s.win.buffered, [][]byte{whole}, at.Offset(), len(whole), false); err != nil {
		return false
	}
	_, err = DecodeFooter(whole, s.id, page, s.v.o.UUID, s.v.o.Key)
	return err == nil
}
