package engine

import (
	"encoding/hex"
	"fmt"

	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

// DiagnosisKind says what bad bytes look like. It is about how the damage may
// have come about; nothing is mended by it.
type DiagnosisKind string

// The kinds of diagnosis.
const (
	DiagnosisZeros       DiagnosisKind = "zeros"        // all zeros: the write never came, or was undone
	DiagnosisTorn        DiagnosisKind = "torn"         // zeros from a sector on to the end: a write cut short
	DiagnosisZeroSectors DiagnosisKind = "zero_sectors" // a run of sectors of zeros: lost or discarded
	DiagnosisFlippedBit  DiagnosisKind = "flipped_bit"  // one bit; with it flipped back the sum holds
	DiagnosisMisplaced   DiagnosisKind = "misplaced"    // bytes of another place: a misdirected write or read
	DiagnosisStale       DiagnosisKind = "stale"        // an older or other extent of this place, or of a segment that is gone
	DiagnosisUnknown     DiagnosisKind = "unknown"      // none of these
)

// Diagnosis says what the bytes of one bad chunk, or of a bad extent header,
// look like.
type Diagnosis struct {
	Kind DiagnosisKind `json:"kind"`
	// Chunk is its number in the extent, -1 for the header.
	Chunk int `json:"chunk"`
	// Offset and Bytes are where in the file the chunk or header is.
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
	// From and To bound the zeros in the file, without To.
	From int64 `json:"from,omitempty"`
	To   int64 `json:"to,omitempty"`
	// Bit is the flipped one: bit Bit%8 of the byte at Bit/8 of the file.
	Bit int64 `json:"bit,omitempty"`
	// Whose the bytes are: misplaced and stale ones.
	Namespace uint32 `json:"namespace,omitempty"`
	Hash      string `json:"hash,omitempty"`
	Segment   uint64 `json:"segment,omitempty"`
	Page      uint32 `json:"page,omitempty"`
	// Of a chunk the number in its own extent.
	OtherChunk int `json:"other_chunk,omitempty"`
	// NotTried says what was left out, since too much is damaged; else empty.
	NotTried string `json:"not_tried,omitempty"`
}

// String is the diagnosis as a sentence without its end.
func (d Diagnosis) String() string {
	what := "the header"
	if d.Chunk >= 0 {
		what = fmt.Sprintf("chunk %d", d.Chunk)
	}
	owner := fmt.Sprintf("block %.32s of namespace %d, whose place is page %d of %s", d.Hash, d.Namespace, d.Page, disk.SegmentName(d.Segment))
	switch d.Kind {
	case DiagnosisZeros:
		return what + " is all zeros"
	case DiagnosisTorn:
		return fmt.Sprintf("%s is zeros from offset %d to its end: a write that was cut short", what, d.From)
	case DiagnosisZeroSectors:
		return fmt.Sprintf("%s has sectors of zeros, offset %d to %d", what, d.From, d.To)
	case DiagnosisFlippedBit:
		return fmt.Sprintf("%s has one flipped bit: bit %d of the byte at offset %d", what, d.Bit%8, d.Bit/8)
	case DiagnosisMisplaced:
		if d.Chunk >= 0 && d.OtherChunk >= 0 {
			return fmt.Sprintf("%s holds the bytes of chunk %d of %s", what, d.OtherChunk, owner)
		}
		return fmt.Sprintf("%s holds bytes of %s", what, owner)
	case DiagnosisStale:
		if d.Chunk < 0 && d.Offset == int64(d.Page)*disk.PageBytes {
			return what + " is a sound one of this place, with another sum than the index has: older bytes came back, or the index is wrong; it is of " + owner
		}
		return fmt.Sprintf("%s holds bytes of an older extent: of %s", what, owner)
	}
	s := what + " has other bytes, and no known pattern"
	if d.NotTried != "" {
		s += "; not tried: " + d.NotTried
	}
	return s
}

// Bounds of what is spent on diagnoses.
const (
	maxExtentDiagnoses = 16   // of one extent
	maxDiagnoses       = 4096 // of one Verify; each keeps its place until the end
	// maxFlipSearches is how often all bits of a chunk or header are tried,
	// which takes up to a second of processor time each.
	maxFlipSearches = 32
	// maxFlipHeaderPages: of longer headers the bits are not tried.
	maxFlipHeaderPages = 2
	// sectorBytes is the least that a device writes as a whole.
	sectorBytes = 512
)

// badChunk is a chunk that did not verify.
type badChunk struct {
	disk.StoredChunk
	off  int64  // in the file
	want uint64 // sum of the stored bytes
}

// diagnose looks at the bad bytes of an extent again. Each answer is given by
// the bytes as they are read now.
func (w *segmentWalk) diagnose(x *expected, bad *fault) []*Diagnosis {
	if bad.kind != "" || w.v.o.NoDiagnosis { // padding and unreadable bytes are what they are
		return nil
	}
	var out []*Diagnosis
	if bad.header {
		if d := w.diagnoseHeader(x); d != nil {
			out = append(out, d)
		}
	}
	for _, c := range bad.chunks {
		if d := w.diagnoseChunk(c); d != nil {
			out = append(out, d)
		}
	}
	return out
}

func (w *segmentWalk) diagnoseChunk(c badChunk) *Diagnosis {
	if !w.v.more(&w.v.diagnoses, maxDiagnoses) {
		return nil
	}
	p, _, err := w.chunk(c.off, c.StoredChunk)
	if err != nil {
		return nil // it was said to be unreadable, or will be
	}
	d := &Diagnosis{Kind: DiagnosisUnknown, Chunk: c.Index, OtherChunk: -1, Offset: c.off, Bytes: int64(len(p))}
	if allZero(p) {
		d.Kind, d.From, d.To = DiagnosisZeros, c.off, c.off+int64(len(p))
		return d
	}
	if w.foreignHeader(d, p) {
		return d
	}
	sum := sums.Chunk(p)
	if sum == c.want {
		return d // sound bytes that do not decode to what they should
	}
	if w.v.more(&w.v.flips, maxFlipSearches) {
		if bit, ok := sums.FlippedBit(p, c.want); ok {
			d.Kind, d.Bit = DiagnosisFlippedBit, 8*c.off+int64(bit)
			return d
		}
	} else {
		d.NotTried = "a flipped bit"
	}
	zeroSectors(d, p)
	// Zeros may be the block's own: a chunk that is another's as a whole is not
	// explained by them.
	w.v.misplaced.ask(sum, d)
	return d
}

// zeroSectors finds the longest run of whole sectors of zeros.
func zeroSectors(d *Diagnosis, p []byte) {
	first := int(-d.Offset & (sectorBytes - 1)) // sectors are those of the file
	from, to, run := 0, 0, first
	for at := first; at < len(p); {
		end := min(at+sectorBytes, len(p))
		if !allZero(p[at:end]) {
			run = end
		} else if end-run > to-from && end-run >= min(sectorBytes, len(p)) {
			from, to = run, end
		}
		at = end
	}
	if to == from {
		return
	}
	d.Kind, d.From, d.To = DiagnosisZeroSectors, d.Offset+int64(from), d.Offset+int64(to)
	if to == len(p) {
		d.Kind = DiagnosisTorn
	}
}

// foreignHeader finds a page that is the header of an extent elsewhere.
func (w *segmentWalk) foreignHeader(d *Diagnosis, p []byte) bool {
	first := int(-d.Offset & (disk.PageBytes - 1))
	for at := first; at+disk.PageBytes <= len(p); at += disk.PageBytes {
		n, err := disk.PeekExtent(p[at:])
		if err != nil || at+n*disk.PageBytes > len(p) {
			continue
		}
		if e, _, err := disk.DecodeExtent(p[at:at+n*disk.PageBytes], w.v.s.key); err == nil && e.StoreUUID == w.v.s.uuid {
			w.owned(d, e)
			return true
		}
	}
	return false
}

// owned notes whose bytes they are. Those of a segment that is no longer there
// are old: numbers of segments are not used again.
func (w *segmentWalk) owned(d *Diagnosis, e *disk.Extent) {
	d.Kind = DiagnosisMisplaced
	if !w.v.hasSegment(e.Address.Segment) || e.Address == (disk.Address{Segment: w.i.ID, Page: uint32(d.Offset / disk.PageBytes)}) {
		d.Kind = DiagnosisStale
	}
	d.Namespace, d.Hash = e.Namespace, hex.EncodeToString(e.Hash)
	d.Segment, d.Page = e.Address.Segment, e.Address.Page
}

// diagnoseHeader looks at a header that does not verify.
func (w *segmentWalk) diagnoseHeader(x *expected) *Diagnosis {
	at := disk.Address{Segment: w.i.ID, Page: x.page}
	if !w.v.more(&w.v.diagnoses, maxDiagnoses) || x.headerPages == 0 || x.headerPages > disk.MaxHeaderPages {
		return nil
	}
	p, err := w.win.bytes(at.Offset(), int(x.headerPages)*disk.PageBytes)
	if err != nil {
		return nil
	}
	d := &Diagnosis{Kind: DiagnosisUnknown, Chunk: -1, OtherChunk: -1, Offset: at.Offset(), Bytes: int64(len(p))}
	if allZero(p) {
		d.Kind, d.From, d.To = DiagnosisZeros, d.Offset, d.Offset+d.Bytes
		return d
	}
	if w.foreignHeader(d, p) {
		return d
	}
	switch {
	case x.headerPages > maxFlipHeaderPages || !w.v.more(&w.v.flips, maxFlipSearches):
		d.NotTried = "a flipped bit"
	default:
		if bit, ok := w.flippedHeader(x, at, p); ok {
			d.Kind, d.Bit = DiagnosisFlippedBit, 8*at.Offset()+int64(bit)
			return d
		}
	}
	// A header ends in zeros, so only a run that begins before they may counts.
	if end := headerEnd(p); end < 128 {
		d.Kind, d.From, d.To = DiagnosisTorn, d.Offset+int64(end), d.Offset+d.Bytes
	}
	return d
}

// headerEnd is where the last byte other than zero is.
func headerEnd(p []byte) int {
	for i := len(p); i > 0; i-- {
		if p[i-1] != 0 {
			return i
		}
	}
	return 0
}

// flippedHeader tries each bit of a header, a copy of it.
func (w *segmentWalk) flippedHeader(x *expected, at disk.Address, header []byte) (int, bool) {
	p := append([]byte(nil), header...)
	for i := range p {
		for b := range 8 {
			p[i] ^= 1 << b
			_, err := disk.DecodeExtentExpect(p, w.v.s.key, x.headerSum, at, w.v.s.uuid)
			p[i] ^= 1 << b
			if err == nil {
				return 8*i + b, true
			}
		}
	}
	return 0, false
}
