package vfs

import "maps"

// The content of a file is a table of chunks of pages. Holes are absent.
// Pages and chunks are shared between images and copied before a write: an
// image writes in place only what carries its own mark.
const (
	pageBytes  = 4 << 10
	chunkPages = 256
	chunkBytes = pageBytes * chunkPages
)

// ownerMark is the identity of an image between two sharings. It has a size,
// so that each has its own address.
type ownerMark struct{ _ byte }

type memPage struct {
	own  *ownerMark
	data [pageBytes]byte
}

type memChunk struct {
	own   *ownerMark
	pages [chunkPages]*memPage
}

// zeroPage stands for each page that was preallocated and never written.
var zeroPage = new(memPage)

// image is the content of a file at one time. Bytes past sizeBytes are zero
// in the pages that hold them.
type image struct {
	sizeBytes int64
	pages     int64 // allocated, of any content
	chunks    map[int64]*memChunk
	own       *ownerMark
}

func newImage() *image {
	return &image{chunks: map[int64]*memChunk{}, own: new(ownerMark)}
}

// share returns an image of equal content. Its cost is one map entry per MiB;
// from now on both images copy what they write to.
func (im *image) share() *image {
	im.own = new(ownerMark)
	return &image{
		sizeBytes: im.sizeBytes,
		pages:     im.pages,
		chunks:    maps.Clone(im.chunks),
		own:       new(ownerMark),
	}
}

// chunk is the own, writable chunk with index c.
func (im *image) chunk(c int64) *memChunk {
	old := im.chunks[c]
	if old != nil && old.own == im.own {
		return old
	}
	fresh := &memChunk{own: im.own}
	if old != nil {
		fresh.pages = old.pages
	}
	im.chunks[c] = fresh
	return fresh
}

// page is page p, or nil in a hole. It may be shared: not to be written.
func (im *image) page(p int64) *memPage {
	if c := im.chunks[p/chunkPages]; c != nil {
		return c.pages[p%chunkPages]
	}
	return nil
}

// ownPage is the own, writable page p. whole says that the caller overwrites
// all of it.
func (im *image) ownPage(p int64, whole bool) *memPage {
	c := im.chunk(p / chunkPages)
	old := c.pages[p%chunkPages]
	if old != nil && old.own == im.own {
		return old
	}
	fresh := &memPage{own: im.own}
	if old == nil {
		im.pages++
	} else if !whole && old != zeroPage {
		fresh.data = old.data
	}
	c.pages[p%chunkPages] = fresh
	return fresh
}

// readAt fills p from off, and returns how much of it the file covers.
func (im *image) readAt(p []byte, off int64) int {
	if off >= im.sizeBytes {
		return 0
	}
	p = p[:min(int64(len(p)), im.sizeBytes-off)]
	for rest := p; len(rest) > 0; {
		at := off % pageBytes
		n := min(len(rest), int(pageBytes-at))
		if pg := im.page(off / pageBytes); pg != nil {
			copy(rest[:n], pg.data[at:])
		} else {
			clear(rest[:n])
		}
		rest, off = rest[n:], off+int64(n)
	}
	return len(p)
}

// writeAt copies p to off and extends the size where p passes it.
func (im *image) writeAt(p []byte, off int64) {
	im.sizeBytes = max(im.sizeBytes, off+int64(len(p)))
	for len(p) > 0 {
		at := off % pageBytes
		n := min(len(p), int(pageBytes-at))
		pg := im.ownPage(off/pageBytes, n == pageBytes)
		copy(pg.data[at:], p[:n])
		p, off = p[n:], off+int64(n)
	}
}

// truncate sets the size. What it cuts off reads as zeros if the file grows
// again.
func (im *image) truncate(sizeBytes int64) {
	if sizeBytes < im.sizeBytes {
		if at := sizeBytes % pageBytes; at != 0 && im.page(sizeBytes/pageBytes) != nil {
			clear(im.ownPage(sizeBytes/pageBytes, false).data[at:])
		}
		im.dropFrom((sizeBytes + pageBytes - 1) / pageBytes)
	}
	im.sizeBytes = sizeBytes
}

// dropFrom frees the pages from index first on.
func (im *image) dropFrom(first int64) {
	for c, ch := range im.chunks {
		if (c+1)*chunkPages <= first {
			continue
		}
		from := max(first-c*chunkPages, 0)
		for i := from; i < chunkPages; i++ {
			if ch.pages[i] != nil {
				im.pages--
			}
		}
		if from == 0 {
			delete(im.chunks, c)
			continue
		}
		clear(im.chunk(c).pages[from:])
	}
}

// reserve allocates the holes of a range and extends the size to cover it.
func (im *image) reserve(off, length int64) {
	im.sizeBytes = max(im.sizeBytes, off+length)
	for p := off / pageBytes; p*pageBytes < off+length; p++ {
		if im.page(p) == nil {
			im.chunk(p / chunkPages).pages[p%chunkPages] = zeroPage
			im.pages++
		}
	}
}

// fit is how many bytes of a range can be written with roomPages new pages.
func (im *image) fit(off, length, roomPages int64) int64 {
	for p := off / pageBytes; p*pageBytes < off+length; p++ {
		if im.page(p) != nil {
			continue
		}
		if roomPages--; roomPages < 0 {
			return max(p*pageBytes-off, 0)
		}
	}
	return length
}

// adopt makes im equal to src, which differs from it only in the chunks that
// touched names, and in its size.
func (im *image) adopt(src *image, touched map[int64]struct{}) {
	im.sizeBytes, im.pages = src.sizeBytes, src.pages
	for c := range touched {
		if ch := src.chunks[c]; ch != nil {
			im.chunks[c] = ch
		} else {
			delete(im.chunks, c)
		}
	}
	src.own = new(ownerMark) // its pages are now those of im as well
}
