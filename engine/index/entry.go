package index

import (
	"encoding/binary"

	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

// Extent is where bytes lie and what authenticates their header.
type Extent struct {
	Address     disk.Address
	HeaderPages uint16
	Pages       uint32 // header and payload
	HeaderSum   uint64 // keyed sum over the header, see docs/format/extent.md
}

// Bytes is the extent's size on disk.
func (e Extent) Bytes() int64 { return int64(e.Pages) * disk.PageBytes }

// ContentTag is the first half of a content id, all that the index keeps of
// it: enough to find content that may be equal and to notice a mix-up. The
// whole id stands in the extent's header, which the header sum covers.
type ContentTag [8]byte

// TagOf is the tag of a content id.
func TagOf(id sums.ContentID) ContentTag { return ContentTag(id[:8]) }

// Entry is what the index holds for a key.
type Entry struct {
	Extent
	Content  ContentTag
	Seq      uint64 // put sequence; a move keeps it
	Depth    uint32 // distance from the root of its prefix
	RawBytes int64  // sum of the planes
	// Own is the alias extent of a key that shares another extent's bytes;
	// zero for a key whose header stands before the bytes.
	Own Extent
}

// IsAlias reports whether the key's own extent is an alias.
func (e Entry) IsAlias() bool { return !e.Own.Address.IsZero() }

// Home is the extent written for this key: where its tombstone belongs.
func (e Entry) Home() Extent {
	if e.IsAlias() {
		return e.Own
	}
	return e.Extent
}

// The first byte of an entry: the version above, below what the entry holds
// beyond the usual.
const (
	entryVersion  = 2 << 4
	entryAlias    = 1 << 0 // an own extent
	entryPages    = 1 << 1 // its size; else 1 header page and the raw bytes' pages
	entryOwnPages = 1 << 2 // the own extent's header pages; else 1
	entryFlags    = entryAlias | entryPages | entryOwnPages
)

// usualPages is the size of an extent with one header page and one plane that
// is not compressed.
func usualPages(rawBytes int64) uint64 {
	return 1 + (uint64(rawBytes)+disk.PageBytes-1)/disk.PageBytes
}

func (e *Entry) flags() (f byte) {
	if e.IsAlias() {
		f |= entryAlias
		if e.Own.HeaderPages != 1 {
			f |= entryOwnPages
		}
	}
	if e.HeaderPages != 1 || uint64(e.Pages) != usualPages(e.RawBytes) {
		f |= entryPages
	}
	return f
}

// appendEntry encodes: version and flags u8, content tag 8, header sum u64,
// then uvarints: segment, page, sequence, depth, raw bytes, and as the flags
// say: header pages, pages; own segment, own page, [own header pages], own
// header sum u64.
func appendEntry(dst []byte, e Entry) []byte {
	flags := e.flags()
	dst = append(dst, entryVersion|flags)
	dst = append(dst, e.Content[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, e.HeaderSum)
	dst = appendAddress(dst, e.Address)
	dst = binary.AppendUvarint(dst, e.Seq)
	dst = binary.AppendUvarint(dst, uint64(e.Depth))
	dst = binary.AppendUvarint(dst, uint64(e.RawBytes))
	if flags&entryPages != 0 {
		dst = binary.AppendUvarint(dst, uint64(e.HeaderPages))
		dst = binary.AppendUvarint(dst, uint64(e.Pages))
	}
	if flags&entryAlias != 0 {
		dst = appendAddress(dst, e.Own.Address)
		if flags&entryOwnPages != 0 {
			dst = binary.AppendUvarint(dst, uint64(e.Own.HeaderPages))
		}
		dst = binary.LittleEndian.AppendUint64(dst, e.Own.HeaderSum)
	}
	return dst
}

// decodeEntry accepts what appendEntry makes and nothing else.
func decodeEntry(p []byte) (e Entry, err error) {
	d := decoder{p: p}
	flags := d.byte()
	if flags&^entryFlags != entryVersion {
		return Entry{}, errBadRecord
	}
	copy(e.Content[:], d.bytes(len(e.Content)))
	e.HeaderSum = d.u64()
	e.Address = d.address()
	e.Seq = d.uvarint()
	e.Depth = uint32(d.max(1<<32 - 1))
	e.RawBytes = int64(d.max(1<<62 - 1))
	if flags&entryPages != 0 {
		e.HeaderPages = uint16(d.max(1<<16 - 1))
		e.Pages = uint32(d.max(1<<32 - 1))
	} else {
		pages := usualPages(e.RawBytes)
		d.bad = d.bad || pages > 1<<32-1
		e.HeaderPages, e.Pages = 1, uint32(pages)
	}
	if flags&entryAlias != 0 {
		e.Own.Address, e.Own.HeaderPages = d.address(), 1
		if flags&entryOwnPages != 0 {
			e.Own.HeaderPages = uint16(d.max(1<<16 - 1))
		}
		e.Own.Pages = uint32(e.Own.HeaderPages)
		e.Own.HeaderSum = d.u64()
	}
	if d.bad || len(d.p) != 0 || e.flags() != flags&entryFlags {
		return Entry{}, errBadRecord
	}
	return e, nil
}

// A c record's value is the address at which some key of the tenant has the
// content; what else there is to know stands in that key's entry.
func appendAddress(dst []byte, a disk.Address) []byte {
	dst = binary.AppendUvarint(dst, a.Segment)
	return binary.AppendUvarint(dst, uint64(a.Page))
}

func decodeAddress(p []byte) (disk.Address, error) {
	d := decoder{p: p}
	a := d.address()
	if d.bad || len(d.p) != 0 || a.Segment == 0 {
		return disk.Address{}, errBadRecord
	}
	return a, nil
}

// decoder reads fields and remembers if one was not there.
type decoder struct {
	p   []byte
	bad bool
}

// noBytes stands in for a field that is not there.
var noBytes [16]byte

func (d *decoder) bytes(n int) []byte {
	if len(d.p) < n {
		d.bad, d.p = true, nil
		return noBytes[:n]
	}
	b := d.p[:n]
	d.p = d.p[n:]
	return b
}

func (d *decoder) byte() byte  { return d.bytes(1)[0] }
func (d *decoder) u64() uint64 { return binary.LittleEndian.Uint64(d.bytes(8)) }

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.p)
	if n <= 0 || n > 1 && d.p[n-1] == 0 { // a number has one encoding
		d.bad, d.p = true, nil
		return 0
	}
	d.p = d.p[n:]
	return v
}

func (d *decoder) max(limit uint64) uint64 {
	v := d.uvarint()
	if v > limit {
		d.bad = true
		return 0
	}
	return v
}

func (d *decoder) address() disk.Address {
	return disk.Address{Segment: d.uvarint(), Page: uint32(d.max(1<<32 - 1))}
}
