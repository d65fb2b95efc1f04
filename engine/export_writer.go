package engine

import (
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"

	"github.com/sealstone/sealstone/internal/sums"
)

// exportWriter writes an export file. What it writes of a block is verified on
// its way: the sums in the file are taken from the bytes in the file.
type exportWriter struct {
	w      io.Writer
	digest *xxhash.Digest
	bytes  int64
	number uint64 // of the next record
	totals exportTotals
}

func newExportWriter(w io.Writer) (*exportWriter, error) {
	e := &exportWriter{w: w, digest: xxhash.NewWithSeed(exportSeed)}
	return e, e.write(exportHeader())
}

func (e *exportWriter) write(p []byte) error {
	_, _ = e.digest.Write(p)
	n, err := e.w.Write(p)
	e.bytes += int64(n)
	if err != nil {
		return fmt.Errorf("engine: write the export: %w", err)
	}
	return nil
}

func (e *exportWriter) record(kind byte, meta []byte) error {
	head := exportHead(kind, e.number, meta)
	e.number++
	if err := e.write(head); err != nil {
		return err
	}
	return e.write(meta)
}

// namespace writes a namespace and returns the number that its blocks name.
func (e *exportWriter) namespace(n *exportedNamespace) (uint32, error) {
	e.totals.namespaces++
	return e.totals.namespaces - 1, e.record(exportNamespace, n.encode())
}

// errExportedChunk: bytes about to be written do not have the sum they are to.
var errExportedChunk = fmt.Errorf("%w: the block's bytes changed in memory before they were written", ErrCorrupt)

// block writes a block with its planes.
func (e *exportWriter) block(b *exportedBlock, planes [][]byte) error {
	chunk := 0
	for _, p := range planes {
		for len(p) > 0 {
			n := min(len(p), sums.ChunkBytes)
			if sums.Chunk(p[:n]) != b.chunkSums[chunk] {
				return errExportedChunk
			}
			p = p[n:]
			chunk++
		}
	}
	if err := e.record(exportBlock, b.encode()); err != nil {
		return err
	}
	for _, p := range planes {
		if err := e.write(p); err != nil {
			return err
		}
	}
	e.totals.blocks++
	e.totals.rawBytes += uint64(b.rawBytes())
	return nil
}

// end writes the last record.
func (e *exportWriter) end() error {
	e.totals.sum = e.digest.Sum64()
	return e.record(exportEnd, e.totals.encode())
}
