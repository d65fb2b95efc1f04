package engine

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cespare/xxhash/v2"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/sums"
)

// An export file carries blocks from one store to another; docs/format/export.md
// describes it. Nothing in it depends on the store that it came from: not its
// uuid, secret, epochs or put sequences.

const (
	exportMagic       = "SLSTEXPT"
	exportVersion     = 1
	exportHeaderBytes = 64
	exportHeadBytes   = 24 // of a record, before its meta

	exportNamespace = 1
	exportBlock     = 2
	exportEnd       = 3

	exportBlockFixedBytes = 32
	exportPlaneBytes      = 8
	exportSumBytes        = 8
	exportEndBytes        = 32
	// exportPlanesMax is as many planes as an extent can have.
	exportPlanesMax = 256
	// exportMetaMax bounds the meta of any record: the largest is a layout.
	exportMetaMax = layout.MaxEncodedBytes + meta.MaxTenantBytes + 2
)

// exportSeed keeps the sums of this format apart from all others: the ASCII
// bytes of "exportv1" as a little-endian number.
const exportSeed = 0x317674726f707865

// exportSum is the sum over parts laid end to end.
func exportSum(parts ...[]byte) uint64 {
	d := xxhash.NewWithSeed(exportSeed)
	for _, p := range parts {
		_, _ = d.Write(p)
	}
	return d.Sum64()
}

// exportedBlock is the meta of a block's record. Its payload, the planes laid
// end to end, follows.
type exportedBlock struct {
	namespace  uint32 // the number of its record among those of namespaces, from 0
	hash       []byte
	parent     []byte
	contentID  sums.ContentID
	planeBytes []int64
	chunkSums  []uint64
}

func (b *exportedBlock) rawBytes() (n int64) {
	for _, p := range b.planeBytes {
		n += p
	}
	return n
}

func (b *exportedBlock) seal() *Seal {
	return &Seal{ContentID: b.contentID, PlaneBytes: b.planeBytes, ChunkSums: b.chunkSums}
}

// encode is the meta: fixed fields, plane lengths, chunk sums, hash, parent.
func (b *exportedBlock) encode() []byte {
	p := make([]byte, 0, exportBlockFixedBytes+exportPlaneBytes*len(b.planeBytes)+exportSumBytes*len(b.chunkSums)+len(b.hash)+len(b.parent))
	p = binary.LittleEndian.AppendUint32(p, b.namespace)
	p = append(p, byte(len(b.hash)), byte(len(b.parent)))
	p = binary.LittleEndian.AppendUint16(p, uint16(len(b.planeBytes)))
	p = binary.LittleEndian.AppendUint32(p, uint32(len(b.chunkSums)))
	p = binary.LittleEndian.AppendUint32(p, 0)
	p = append(p, b.contentID[:]...)
	for _, n := range b.planeBytes {
		p = binary.LittleEndian.AppendUint64(p, uint64(n))
	}
	for _, s := range b.chunkSums {
		p = binary.LittleEndian.AppendUint64(p, s)
	}
	return append(append(p, b.hash...), b.parent...)
}

// decodeExportedBlock checks all that the meta alone can tell: lengths against
// one another, and the content id against the sums.
func decodeExportedBlock(p []byte) (*exportedBlock, error) {
	d := fieldReader{p: p}
	b := &exportedBlock{namespace: d.u32()}
	hashLen, parentLen := int(d.u8()), int(d.u8())
	planes, chunks := int(d.u16()), int(d.u32())
	zero := d.u32()
	b.contentID = sums.ContentID(d.bytes(16))
	if d.short || zero != 0 || planes < 1 || planes > exportPlanesMax || len(d.p) != planes*exportPlaneBytes+chunks*exportSumBytes+hashLen+parentLen {
		return nil, errors.New("a block's fields contradict one another")
	}
	want, total := 0, int64(0)
	for range planes {
		n := int64(d.u64())
		if n < 1 || n > MaxBlockBytes {
			return nil, fmt.Errorf("a plane of %d bytes", n)
		}
		b.planeBytes = append(b.planeBytes, n)
		want, total = want+sums.ChunkCount(n), total+n
	}
	if want != chunks || total > MaxBlockBytes {
		return nil, fmt.Errorf("a block of %d bytes in %d chunks, and %d sums", total, want, chunks)
	}
	for range chunks {
		b.chunkSums = append(b.chunkSums, d.u64())
	}
	b.hash, b.parent = d.bytes(hashLen), d.bytes(parentLen)
	if err := checkHash(b.hash); err != nil {
		return nil, err
	}
	if len(b.parent) != 0 {
		if err := checkHash(b.parent); err != nil {
			return nil, err
		}
	}
	if sums.Content(b.planeBytes, b.chunkSums) != b.contentID {
		return nil, errors.New("a block's sums do not come to its content id")
	}
	return b, nil
}

// exportedNamespace is the meta of a namespace's record.
type exportedNamespace struct {
	tenant string
	layout Layout
}

func (n *exportedNamespace) encode() []byte {
	p := binary.LittleEndian.AppendUint16(nil, uint16(len(n.tenant)))
	return append(append(p, n.tenant...), n.layout.Encode()...)
}

func decodeExportedNamespace(p []byte) (*exportedNamespace, error) {
	d := fieldReader{p: p}
	size := int(d.u16())
	tenant := d.bytes(size)
	if d.short || size > meta.MaxTenantBytes {
		return nil, errors.New("a tenant's name is cut short")
	}
	l, err := layout.Decode(d.p)
	if err != nil {
		return nil, fmt.Errorf("a layout: %w", err)
	}
	return &exportedNamespace{string(tenant), l}, nil
}

// exportTotals is the meta of the last record.
type exportTotals struct {
	namespaces uint32
	blocks     uint64
	rawBytes   uint64
	sum        uint64 // of every byte of the file before the record
}

func (t *exportTotals) encode() []byte {
	p := binary.LittleEndian.AppendUint32(nil, t.namespaces)
	p = binary.LittleEndian.AppendUint32(p, 0)
	p = binary.LittleEndian.AppendUint64(p, t.blocks)
	p = binary.LittleEndian.AppendUint64(p, t.rawBytes)
	return binary.LittleEndian.AppendUint64(p, t.sum)
}

// exportHead is the head of record number n with this meta.
func exportHead(kind byte, number uint64, meta []byte) []byte {
	p := append(make([]byte, 0, exportHeadBytes), kind, 0, 0, 0)
	p = binary.LittleEndian.AppendUint32(p, uint32(len(meta)))
	p = binary.LittleEndian.AppendUint64(p, number)
	return binary.LittleEndian.AppendUint64(p, exportSum(p, meta))
}

func exportHeader() []byte {
	p := append(make([]byte, 0, exportHeaderBytes), exportMagic...)
	p = binary.LittleEndian.AppendUint16(p, exportVersion)
	p = append(p, make([]byte, exportHeaderBytes-8-len(p))...) // no feature bits
	return binary.LittleEndian.AppendUint64(p, exportSum(p))
}
