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

// Entry is what the index holds for a key.
type Entry struct {
	Extent
	ContentID sums.ContentID
	Seq       uint64 // put sequence; a move keeps it
	Depth     uint32 // distance from the root of its prefix
	RawBytes  int64  // sum of the planes
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

const entryVersion = 1

// Entry encoding: version u8, content id, header sum u64, then uvarints:
// segment, page, header pages, pages, sequence, depth, raw bytes, own segment,
// and for an alias own page, own header pages and own header sum u64.
func appendEntry(dst []byte, e Entry) []byte {
	dst = append(dst, entryVersion)
	dst = append(dst, e.ContentID[:]...)
	dst = binary.LittleEndian.AppendUint64(dst, e.HeaderSum)
	dst = binary.AppendUvarint(dst, e.Address.Segment)
	dst = binary.AppendUvarint(dst, uint64(e.Address.Page))
	dst = binary.AppendUvarint(dst, uint64(e.HeaderPages))
	dst = binary.AppendUvarint(dst, uint64(e.Pages))
	dst = binary.AppendUvarint(dst, e.Seq)
	dst = binary.AppendUvarint(dst, uint64(e.Depth))
	dst = binary.AppendUvarint(dst, uint64(e.RawBytes))
	dst = binary.AppendUvarint(dst, e.Own.Address.Segment)
	if e.IsAlias() {
		dst = binary.AppendUvarint(dst, uint64(e.Own.Address.Page))
		dst = binary.AppendUvarint(dst, uint64(e.Own.HeaderPages))
		dst = binary.LittleEndian.AppendUint64(dst, e.Own.HeaderSum)
	}
	return dst
}

func decodeEntry(p []byte) (e Entry, err error) {
	d := decoder{p: p}
	if d.byte() != entryVersion {
		return Entry{}, errBadRecord
	}
	copy(e.ContentID[:], d.bytes(len(e.ContentID)))
	e.HeaderSum = d.u64()
	e.Address.Segment = d.uvarint()
	e.Address.Page = uint32(d.max(1<<32 - 1))
	e.HeaderPages = uint16(d.max(1<<16 - 1))
	e.Pages = uint32(d.max(1<<32 - 1))
	e.Seq = d.uvarint()
	e.Depth = uint32(d.max(1<<32 - 1))
	e.RawBytes = int64(d.max(1<<62 - 1))
	e.Own.Address.Segment = d.uvarint()
	if e.Own.Address.Segment != 0 {
		e.Own.Address.Page = uint32(d.max(1<<32 - 1))
		e.Own.HeaderPages = uint16(d.max(1<<16 - 1))
		e.Own.Pages = uint32(e.Own.HeaderPages)
		e.Own.HeaderSum = d.u64()
	}
	if d.bad || len(d.p) != 0 {
		return Entry{}, errBadRecord
	}
	return e, nil
}

// Content is where content of a tenant lies.
type Content struct {
	Extent
}

func appendContent(dst []byte, c Content) []byte {
	dst = append(dst, entryVersion)
	dst = binary.LittleEndian.AppendUint64(dst, c.HeaderSum)
	dst = binary.AppendUvarint(dst, c.Address.Segment)
	dst = binary.AppendUvarint(dst, uint64(c.Address.Page))
	dst = binary.AppendUvarint(dst, uint64(c.HeaderPages))
	return binary.AppendUvarint(dst, uint64(c.Pages))
}

func decodeContent(p []byte) (c Content, err error) {
	d := decoder{p: p}
	if d.byte() != entryVersion {
		return Content{}, errBadRecord
	}
	c.HeaderSum = d.u64()
	c.Address.Segment = d.uvarint()
	c.Address.Page = uint32(d.max(1<<32 - 1))
	c.HeaderPages = uint16(d.max(1<<16 - 1))
	c.Pages = uint32(d.max(1<<32 - 1))
	if d.bad || len(d.p) != 0 {
		return Content{}, errBadRecord
	}
	return c, nil
}

// decoder reads fields and remembers if one was not there.
type decoder struct {
	p   []byte
	bad bool
}

func (d *decoder) bytes(n int) []byte {
	if len(d.p) < n {
		d.bad, d.p = true, nil
		return make([]byte, n)
	}
	b := d.p[:n]
	d.p = d.p[n:]
	return b
}

func (d *decoder) byte() byte  { return d.bytes(1)[0] }
func (d *decoder) u64() uint64 { return binary.LittleEndian.Uint64(d.bytes(8)) }

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.p)
	if n <= 0 {
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
