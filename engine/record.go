package engine

import (
	"encoding/binary"
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/wal"
)

// recordKind is what a log record says happened.
type recordKind uint8

const (
	recordPut        recordKind = 1 // a key got bytes, or an alias to bytes
	recordDrop       recordKind = 2 // a key is gone, up to a put sequence
	recordQuarantine recordKind = 3 // an address is bad, with all who refer to it
	recordMove       recordKind = 4 // an address' bytes were copied elsewhere
	recordEvict      recordKind = 5 // a segment is gone
)

func (k recordKind) String() string {
	switch k {
	case recordPut:
		return "put"
	case recordDrop:
		return "drop"
	case recordQuarantine:
		return "quarantine"
	case recordMove:
		return "move"
	case recordEvict:
		return "evict"
	}
	return fmt.Sprintf("record kind %d", uint8(k))
}

// record is one log record. Fields by kind:
//
//	put         Key, Entry (whole), ContentID
//	drop        Key, Entry.Seq, From (where its tombstone stands)
//	quarantine  Key, Entry.Seq, Entry.Address
//	move        Key, Entry.Seq, From, Entry.Extent (the copy)
//	evict       Segment
//
// A precondition (this key still has this sequence, this address) is tested
// when the record is applied, against the index alone.
type record struct {
	Kind    recordKind
	Key     index.Key
	Entry   index.Entry
	From    disk.Address
	Segment uint64
	// ContentID is whole; Entry.Content is its tag.
	ContentID sums.ContentID

	// Not part of the encoding: where it stands in the log, and what a put
	// or a drop is charged until it is applied.
	lsn, end wal.LSN
	charge   charge
}

const recordVersion = 1

// Encoding of a record, little endian (docs/format/record.md):
//
//	+---------+------+--------------+-----------+------+------------------+
//	| version | kind | namespace u32| hash len  | hash | fields by kind   |
//	|   u8    |  u8  |              |    u8     |      |                  |
//	+---------+------+--------------+-----------+------+------------------+
//	extent  = segment u64, page u32, header pages u16, pages u32, sum u64
//	put     = extent, content id 16, sequence u64, depth u32, raw bytes u64,
//	          own extent (zero if the key is no alias)
//	drop    = sequence u64, tombstoned segment u64, page u32
//	quar.   = sequence u64, segment u64, page u32
//	move    = sequence u64, from segment u64, from page u32, extent
//	evict   = segment u64
func (r *record) encode() []byte {
	b := make([]byte, 0, 160)
	b = append(b, recordVersion, byte(r.Kind))
	b = binary.LittleEndian.AppendUint32(b, r.Key.Namespace)
	b = append(b, byte(len(r.Key.Hash)))
	b = append(b, r.Key.Hash...)
	switch r.Kind {
	case recordPut:
		b = appendExtent(b, r.Entry.Extent)
		b = append(b, r.ContentID[:]...)
		b = binary.LittleEndian.AppendUint64(b, r.Entry.Seq)
		b = binary.LittleEndian.AppendUint32(b, r.Entry.Depth)
		b = binary.LittleEndian.AppendUint64(b, uint64(r.Entry.RawBytes))
		b = appendExtent(b, r.Entry.Own)
	case recordDrop:
		b = binary.LittleEndian.AppendUint64(b, r.Entry.Seq)
		b = appendAddress(b, r.From)
	case recordQuarantine:
		b = binary.LittleEndian.AppendUint64(b, r.Entry.Seq)
		b = appendAddress(b, r.Entry.Address)
	case recordMove:
		b = binary.LittleEndian.AppendUint64(b, r.Entry.Seq)
		b = appendAddress(b, r.From)
		b = appendExtent(b, r.Entry.Extent)
	case recordEvict:
		b = binary.LittleEndian.AppendUint64(b, r.Segment)
	}
	return b
}

func appendAddress(b []byte, a disk.Address) []byte {
	b = binary.LittleEndian.AppendUint64(b, a.Segment)
	return binary.LittleEndian.AppendUint32(b, a.Page)
}

func appendExtent(b []byte, e index.Extent) []byte {
	b = appendAddress(b, e.Address)
	b = binary.LittleEndian.AppendUint16(b, e.HeaderPages)
	b = binary.LittleEndian.AppendUint32(b, e.Pages)
	return binary.LittleEndian.AppendUint64(b, e.HeaderSum)
}

// errBadRecord: a log record verified by its group's sum but does not parse.
type errBadRecord struct{ reason string }

func (e errBadRecord) Error() string { return "engine: log record: " + e.reason }

func decodeRecord(p []byte) (*record, error) {
	d := fieldReader{p: p}
	if v := d.u8(); v != recordVersion {
		return nil, errBadRecord{fmt.Sprintf("version %d, want %d", v, recordVersion)}
	}
	r := &record{Kind: recordKind(d.u8())}
	r.Key.Namespace = d.u32()
	r.Key.Hash = string(d.bytes(int(d.u8())))
	switch r.Kind {
	case recordPut:
		r.Entry.Extent = d.extent()
		r.ContentID = sums.ContentID(d.bytes(16))
		r.Entry.Content = index.TagOf(r.ContentID)
		r.Entry.Seq = d.u64()
		r.Entry.Depth = d.u32()
		r.Entry.RawBytes = int64(d.u64())
		r.Entry.Own = d.extent()
	case recordDrop:
		r.Entry.Seq = d.u64()
		r.From = d.address()
	case recordQuarantine:
		r.Entry.Seq = d.u64()
		r.Entry.Address = d.address()
	case recordMove:
		r.Entry.Seq = d.u64()
		r.From = d.address()
		r.Entry.Extent = d.extent()
	case recordEvict:
		r.Segment = d.u64()
	default:
		return nil, errBadRecord{fmt.Sprintf("unknown kind %d", r.Kind)}
	}
	if d.short {
		return nil, errBadRecord{"ends early"}
	}
	if len(d.p) != 0 {
		return nil, errBadRecord{fmt.Sprintf("%d bytes too many", len(d.p))}
	}
	return r, r.check()
}

// check holds what every well-formed record satisfies.
func (r *record) check() error {
	if r.Kind == recordEvict {
		if r.Segment == 0 || r.Key.Hash != "" {
			return errBadRecord{"evict of segment 0 or with a key"}
		}
		return nil
	}
	if n := len(r.Key.Hash); n < MinHashBytes || n > MaxHashBytes {
		return errBadRecord{fmt.Sprintf("hash of %d bytes", n)}
	}
	if r.Entry.Seq == 0 {
		return errBadRecord{"sequence 0"}
	}
	if (r.Kind == recordPut || r.Kind == recordMove) && (r.Entry.Address.IsZero() || r.Entry.Pages < uint32(r.Entry.HeaderPages) || r.Entry.HeaderPages == 0) {
		return errBadRecord{"extent without pages"}
	}
	return nil
}

// fieldReader takes fields off a slice and remembers if one was not there.
type fieldReader struct {
	p     []byte
	short bool
}

func (d *fieldReader) bytes(n int) []byte {
	if len(d.p) < n {
		d.short, d.p = true, nil
		return make([]byte, n)
	}
	b := d.p[:n]
	d.p = d.p[n:]
	return b
}

func (d *fieldReader) u8() uint8   { return d.bytes(1)[0] }
func (d *fieldReader) u16() uint16 { return binary.LittleEndian.Uint16(d.bytes(2)) }
func (d *fieldReader) u32() uint32 { return binary.LittleEndian.Uint32(d.bytes(4)) }
func (d *fieldReader) u64() uint64 { return binary.LittleEndian.Uint64(d.bytes(8)) }

func (d *fieldReader) address() disk.Address {
	return disk.Address{Segment: d.u64(), Page: d.u32()}
}

func (d *fieldReader) extent() index.Extent {
	e := index.Extent{Address: d.address()}
	e.HeaderPages = d.u16()
	e.Pages = d.u32()
	e.HeaderSum = d.u64()
	return e
}
