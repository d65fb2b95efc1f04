package engine

import (
	"encoding/binary"
	"math"

	"github.com/cespare/xxhash/v2"

	"github.com/sealstone/sealstone/tiers/disk"
)

// Sample is the part of a store's extents that Verify reads. The zero value is
// all of them. Which extents are in it follows from the fields and from where
// an extent lies alone, so that two runs on one store read the same.
type Sample struct {
	// Share, more than 0 and less than 1, is the share of extents to read.
	Share float64 `json:"share,omitempty"`
	// Bytes reads about as many bytes of segments.
	Bytes int64 `json:"bytes,omitempty"`
	// Part of Parts reads the Part-th of so many parts, from 1 on: all of them
	// together read every extent exactly once.
	Part  int `json:"part,omitempty"`
	Parts int `json:"parts,omitempty"`
	// Seed chooses another sample of the same size.
	Seed uint64 `json:"seed"`
}

func (s Sample) all() bool { return s.Share == 0 && s.Bytes == 0 && s.Parts == 0 && s.Part == 0 }

func (s Sample) validate() error {
	kinds := 0
	for _, given := range []bool{s.Share != 0, s.Bytes != 0, s.Parts != 0 || s.Part != 0} {
		if given {
			kinds++
		}
	}
	switch {
	case kinds > 1:
		return invalidf("a sample by more than one of share, bytes and parts")
	case s.Share != 0 && !(s.Share > 0 && s.Share < 1):
		return invalidf("a sample of the share %v; more than 0 and less than 1 is allowed", s.Share)
	case s.Bytes < 0:
		return invalidf("a sample of %d bytes", s.Bytes)
	case kinds == 1 && s.Share == 0 && s.Bytes == 0 && (s.Part < 1 || s.Part > s.Parts):
		return invalidf("part %d of %d", s.Part, s.Parts)
	}
	return nil
}

// share is the bound below which an extent's number is in the sample.
func (s Sample) share(totalBytes int64) uint64 {
	share := s.Share
	if s.Bytes > 0 {
		share = float64(s.Bytes) / float64(max(totalBytes, 1))
	}
	if share >= 1 {
		return math.MaxUint64
	}
	return uint64(share * math.MaxUint64)
}

// sampled reports whether what begins at a page is to be read.
func (v *verifier) sampled(segment uint64, page uint32) bool {
	s := &v.o.Sample
	if s.all() {
		return true
	}
	var p [20]byte
	binary.LittleEndian.PutUint64(p[0:], s.Seed)
	binary.LittleEndian.PutUint64(p[8:], segment)
	binary.LittleEndian.PutUint32(p[16:], page)
	h := xxhash.Sum64(p[:])
	if s.Parts > 0 {
		return h%uint64(s.Parts) == uint64(s.Part-1)
	}
	return h <= v.share
}

// pass leaves an extent out, but for what the records about it say.
func (w *segmentWalk) pass(x *expected) {
	w.passedBytes += int64(x.pages) * disk.PageBytes
	w.passedExtents++
	w.listed(x)
	if f := x.footer; f != nil && (f.HeaderSum != x.headerSum || f.HeaderPages != x.headerPages || uint32(f.HeaderPages)+f.PayloadPages != x.pages) {
		w.footerDisagrees(x, "the footer's entry is not that of the index")
	}
	w.v.verdicts(x, w.i.ID, VerdictNotRead, nil)
}

// passRun leaves out pages on which nothing is expected.
func (w *segmentWalk) passRun(from, to uint32) bool {
	if w.inRun > from || w.v.sampled(w.i.ID, from) {
		w.inRun = max(w.inRun, to) // it is gone through as a whole
		return false
	}
	w.passedBytes += int64(to-from) * disk.PageBytes
	return true
}
