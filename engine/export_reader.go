package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/sealstone/sealstone/internal/sums"
)

// exportReader reads an export file, record by record, and verifies each
// before it hands it out. Memory: one block, and never more than about twice
// what was read of it, whatever lengths the file claims.
type exportReader struct {
	r      io.Reader
	digest *xxhash.Digest
	offset int64
	number uint64
	totals exportTotals
	ended  bool
}

// exportedRecord is one record: a namespace, or a block with its planes.
type exportedRecord struct {
	namespace *exportedNamespace
	block     *exportedBlock
	planes    [][]byte
}

func newExportReader(r io.Reader) (*exportReader, error) {
	e := &exportReader{r: r, digest: xxhash.NewWithSeed(exportSeed)}
	p, err := e.take(exportHeaderBytes)
	if err != nil {
		return nil, err
	}
	if string(p[:8]) != exportMagic {
		return nil, e.damaged(0, "this is no export file")
	}
	if exportSum(p[:exportHeaderBytes-8]) != binary.LittleEndian.Uint64(p[exportHeaderBytes-8:]) {
		return nil, e.damaged(0, "the header's sum is wrong")
	}
	if v := binary.LittleEndian.Uint16(p[8:]); v != exportVersion {
		return nil, fmt.Errorf("%w: export file of version %d, this program knows %d", ErrUnsupported, v, exportVersion)
	}
	if bits := binary.LittleEndian.Uint32(p[12:]); bits != 0 {
		return nil, fmt.Errorf("%w: export file with incompatible features %#x", ErrUnsupported, bits)
	}
	return e, nil
}

// damaged is an error about the file at an offset.
func (e *exportReader) damaged(offset int64, format string, args ...any) error {
	return fmt.Errorf("%w: export file at byte %d: %s", ErrCorrupt, offset, fmt.Sprintf(format, args...))
}

// take reads n bytes. The memory grows with what arrives.
func (e *exportReader) take(n int64) ([]byte, error) {
	var buf bytes.Buffer
	if n <= sums.ChunkBytes {
		buf.Grow(int(n))
	}
	at := e.offset
	got, err := buf.ReadFrom(io.LimitReader(e.r, n))
	e.offset += got
	_, _ = e.digest.Write(buf.Bytes())
	if err != nil {
		return nil, fmt.Errorf("engine: read the export at byte %d: %w", e.offset, err)
	}
	if got < n {
		return nil, e.damaged(e.offset, "the file ends inside what begins at byte %d: it was cut short", at)
	}
	return buf.Bytes(), nil
}

// next returns the next record, or io.EOF behind the last one of a file that
// is whole. Errors: ErrCorrupt, those of the reader below.
func (e *exportReader) next() (*exportedRecord, error) {
	if e.ended {
		return nil, io.EOF
	}
	at, sum := e.offset, e.digest.Sum64()
	head, err := e.take(exportHeadBytes)
	if err != nil {
		return nil, err
	}
	size := int64(binary.LittleEndian.Uint32(head[4:]))
	if size > exportMetaMax {
		return nil, e.damaged(at, "a record of %d bytes, more than %d", size, exportMetaMax)
	}
	meta, err := e.take(size)
	if err != nil {
		return nil, err
	}
	if exportSum(head[:16], meta) != binary.LittleEndian.Uint64(head[16:]) {
		return nil, e.damaged(at, "a record's sum is wrong")
	}
	if n := binary.LittleEndian.Uint64(head[8:]); n != e.number {
		return nil, e.damaged(at, "record %d, and number %d is due: something is missing, twice there, or in another order", n, e.number)
	}
	e.number++
	if head[1]|head[2]|head[3] != 0 {
		return nil, e.damaged(at, "reserved bytes are in use")
	}
	switch head[0] {
	case exportNamespace:
		n, err := decodeExportedNamespace(meta)
		if err != nil {
			return nil, e.damaged(at, "%v", err)
		}
		e.totals.namespaces++
		return &exportedRecord{namespace: n}, nil
	case exportBlock:
		return e.block(at, meta)
	case exportEnd:
		return nil, e.end(at, sum, meta)
	}
	return nil, e.damaged(at, "a record of unknown kind %d", head[0])
}

func (e *exportReader) block(at int64, meta []byte) (*exportedRecord, error) {
	b, err := decodeExportedBlock(meta)
	if err != nil {
		return nil, e.damaged(at, "%v", err)
	}
	if b.namespace >= e.totals.namespaces {
		return nil, e.damaged(at, "a block of namespace %d, and %d were described", b.namespace, e.totals.namespaces)
	}
	from := e.offset
	payload, err := e.take(b.rawBytes())
	if err != nil {
		return nil, err
	}
	r := &exportedRecord{block: b}
	chunk := 0
	for _, size := range b.planeBytes {
		plane := payload[:size]
		payload = payload[size:]
		r.planes = append(r.planes, plane)
		for off := int64(0); off < size; off += sums.ChunkBytes {
			if sums.Chunk(plane[off:min(size, off+sums.ChunkBytes)]) != b.chunkSums[chunk] {
				return nil, e.damaged(from, "block %x: chunk %d does not match its sum", b.hash, chunk)
			}
			chunk++
		}
	}
	e.totals.blocks++
	e.totals.rawBytes += uint64(b.rawBytes())
	return r, nil
}

// end checks the last record, and that nothing follows it.
func (e *exportReader) end(at int64, sum uint64, meta []byte) error {
	e.totals.sum = sum
	if !bytes.Equal(meta, e.totals.encode()) {
		return e.damaged(at, "the totals at the end are not those of the file")
	}
	var more [1]byte
	n, err := io.ReadFull(e.r, more[:])
	switch {
	case n != 0:
		return e.damaged(e.offset, "bytes follow the end")
	case !errors.Is(err, io.EOF):
		return fmt.Errorf("engine: read the export at byte %d: %w", e.offset, err)
	}
	e.ended = true
	return io.EOF
}
