package aligned

import (
	"fmt"
	"unsafe"
)

// slab is one mapping that buffers are cut from, in runs of pages (units).
// A page is used or free; and it is warm, held by the process, or cold: not
// there until it is filled in. What is used is warm. A block is the part of a
// slab that one huge page makes up. Who holds a slab keeps its books under the
// pool's lock.
type slab struct {
	mem   []byte
	pages int
	node  int
	kind  Huge
	// fixed: all pages are warm from the first to the last moment.
	fixed                bool
	used, warm           bitmap // by page
	small                bitmap // by block: asked to be made of small pages
	usedPages, warmPages int
}

// run is a piece of a slab that one buffer takes. Pages from fillFrom to
// fillTo are to be filled in by its owner before use.
type run struct {
	s                *slab
	page, pages      int
	fillFrom, fillTo int
}

func (r run) bytes() []byte { return r.s.piece(r.page, r.page+r.pages) }

// newSlab maps sizeBytes, whole units, as kind; the caller falls back to
// another.
func newSlab(sizeBytes int, kind Huge, node int, bind bool) (*slab, error) {
	var mem []byte
	var err error
	if kind == HugeTLB {
		mem, err = mapHugeTLB(sizeBytes)
	} else {
		mem, err = mapMemory(sizeBytes)
	}
	if err != nil {
		return nil, fmt.Errorf("aligned: map %d bytes: %w", sizeBytes, err)
	}
	if kind == HugeNone {
		adviseSmall(mem)
	}
	if bind {
		_ = preferNode(mem, node) // else from wherever the kernel likes
	}
	pages := sizeBytes / unitBytes
	s := &slab{
		mem: mem, pages: pages, node: node, kind: kind, fixed: kind == HugeTLB || !canReturn,
		used: newBitmap(pages), warm: newBitmap(pages), small: newBitmap(pages/hugePages + 1),
	}
	if s.fixed {
		s.warm.set(0, pages)
		s.warmPages = pages
	}
	return s, nil
}

// piece is the memory of pages [from, to).
func (s *slab) piece(from, to int) []byte {
	return s.mem[from*unitBytes : to*unitBytes : to*unitBytes]
}

// pageOf is where a buffer of this slab begins.
func (s *slab) pageOf(mem []byte) int {
	return int(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))-uintptr(unsafe.Pointer(unsafe.SliceData(s.mem)))) / unitBytes
}

// find looks for free pages, the first that fit: so buffers gather at the low
// end, where the warm pages are, and the high end comes free.
func (s *slab) find(pages, align int) (page int, ok bool) {
	if s.pages-s.usedPages < pages {
		return 0, false
	}
	for {
		page = (s.used.nextClear(page, s.pages) + align - 1) &^ (align - 1)
		if page+pages > s.pages {
			return 0, false
		}
		taken := s.used.nextSet(page, page+pages)
		if taken == page+pages {
			return page, true
		}
		page = taken + 1
	}
}

// take marks a run as used and says how many of its pages are cold.
func (s *slab) take(page, pages int) (cold int) {
	cold = pages - s.warm.count(page, page+pages)
	s.used.set(page, page+pages)
	s.usedPages += pages
	return cold
}

// give ends the use of a run; its pages stay warm.
func (s *slab) give(page, pages int) {
	s.used.clear(page, page+pages)
	s.usedPages -= pages
}

// fill marks the cold pages of a run as warm and notes which range its owner
// has to fill in. A wholly cold block becomes warm as a whole, since the kernel
// makes a huge page of it, as long as that costs no more than sparePages
// beyond the run; else it is to be made of small pages.
func (s *slab) fill(r *run, sparePages int) (extra int) {
	from, to := r.page, r.page+r.pages
	first := s.warm.nextClear(from, to)
	last := to
	for last > first && s.warm.has(last-1) {
		last--
	}
	r.fillFrom, r.fillTo = first, last
	for b := first / hugePages; b*hugePages < last && s.kind == HugeTHP; b++ {
		lo, hi := s.block(b)
		if s.warm.count(lo, hi) != 0 {
			continue
		}
		beyond := (hi - lo) - (min(hi, to) - max(lo, from))
		if beyond > sparePages {
			s.small.set(b, b+1)
			adviseSmall(s.piece(lo, hi))
			continue
		}
		sparePages -= beyond
		extra += beyond
		s.warm.set(lo, hi)
		r.fillFrom, r.fillTo = min(r.fillFrom, lo), max(r.fillTo, hi)
	}
	s.warm.set(from, to)
	s.warmPages = s.warm.count(0, s.pages)
	return extra
}

// block is the range of pages of a block; the last may be shorter.
func (s *slab) block(b int) (lo, hi int) {
	return b * hugePages, min(s.pages, (b+1)*hugePages)
}

// coolBlocks returns blocks without a used page to the kernel, the highest
// first, until wantPages came free, and says how many did.
func (s *slab) coolBlocks(wantPages int) (cooled int) {
	if s.fixed {
		return 0
	}
	for b := (s.pages - 1) / hugePages; b >= 0 && cooled < wantPages; b-- {
		lo, hi := s.block(b)
		if s.used.nextSet(lo, hi) == hi {
			cooled += s.cool(lo, hi)
		}
	}
	return cooled
}

// coolPages is coolBlocks page by page. It breaks up huge pages, so it is for
// when a limit would be passed.
func (s *slab) coolPages(wantPages int) (cooled int) {
	if s.fixed {
		return 0
	}
	for lo := 0; cooled < wantPages; {
		lo = s.warm.nextSet(lo, s.pages)
		if lo == s.pages {
			break
		}
		if s.used.has(lo) {
			lo = s.used.nextClear(lo, s.pages)
			continue
		}
		hi := min(s.used.nextSet(lo, s.pages), s.warm.nextClear(lo, s.pages))
		cooled += s.cool(lo, min(hi, lo+wantPages-cooled))
		lo = hi
	}
	return cooled
}

// cool returns free pages [lo, hi) to the kernel and says how many were warm.
// A block that is cold then may become a huge page again.
func (s *slab) cool(lo, hi int) int {
	warm := s.warm.count(lo, hi)
	if warm == 0 || returnPages(s.piece(lo, hi)) != nil {
		return 0
	}
	s.warm.clear(lo, hi)
	s.warmPages -= warm
	for b := lo / hugePages; b*hugePages < hi; b++ {
		from, to := s.block(b)
		if s.small.has(b) && s.warm.count(from, to) == 0 {
			s.small.clear(b, b+1)
			adviseHuge(s.piece(from, to))
		}
	}
	return warm
}

// settle is for a range that was filled in: pages of it that were returned
// meanwhile, unused, are returned once more.
func (s *slab) settle(from, to int) {
	for from < to {
		from = s.warm.nextClear(from, to)
		end := s.warm.nextSet(from, to)
		if from < end {
			_ = returnPages(s.piece(from, end))
		}
		from = end
	}
}
