package engine

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

// ExportOptions says which blocks Export writes, and how fast.
type ExportOptions struct {
	Selection
	// BytesPerSecond bounds what is read from the store; 0 is no bound.
	BytesPerSecond int64
	// Progress is told how many of the blocks' bytes are written, from the
	// caller's goroutine.
	Progress func(doneBytes, totalBytes int64)
}

// ExportReport is what Export wrote.
type ExportReport struct {
	Namespaces uint32 `json:"namespaces"`
	Blocks     int64  `json:"blocks"`
	RawBytes   int64  `json:"raw_bytes"`
	FileBytes  int64  `json:"file_bytes"`
	// NextSequence is behind the last block's put sequence: as FirstSequence of
	// a later export from the same store it means what was put since.
	NextSequence uint64 `json:"next_sequence"`
	// Missing blocks went while the export ran. Damaged ones did not verify
	// and are not in the file; the first hundred are named.
	Missing int64         `json:"missing"`
	Damaged int64         `json:"damaged"`
	Bad     []ExportedBad `json:"bad"`
}

// ExportedBad is a block that could not be exported.
type ExportedBad struct {
	Namespace uint32 `json:"namespace"`
	Hash      string `json:"hash"` // hexadecimal
	Reason    string `json:"reason"`
}

const exportBadMax = 100

// Export writes the blocks that are meant to w, with their layouts, tenants,
// parents and seals, in the order in which they were put; see
// docs/format/export.md. Every block is read and verified whole first: one that
// does not verify is left out and reported. Memory: some 100 bytes for each
// block meant. The bytes do not depend on the store's identity, its epochs or
// sequences.
//
// Errors: ErrInvalid, ErrClosed, the context's, those of w. What w has got is
// then no whole export, and an import says so.
func (s *Store) Export(ctx context.Context, w io.Writer, o ExportOptions) (*ExportReport, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.ops.done()
	pace, err := newPacer(o.BytesPerSecond)
	if err != nil {
		return nil, err
	}
	f, err := s.newBlockFilter(o.Selection)
	if err != nil {
		return nil, err
	}
	buffered := bufio.NewWriterSize(w, 1<<20)
	out, err := newExportWriter(buffered)
	if err != nil {
		return nil, err
	}
	e := &export{s: s, o: o, pace: pace, w: out, spaces: map[uint32]uint32{}, report: &ExportReport{Bad: []ExportedBad{}}}
	if err := e.collect(ctx, f); err != nil {
		return nil, fmt.Errorf("engine: export: %w", err)
	}
	for i, k := range e.keys {
		if err := e.key(ctx, k.key); err != nil {
			return nil, fmt.Errorf("engine: export: %w", err)
		}
		e.report.NextSequence = k.seq + 1
		e.keys[i].key.Hash = "" // not needed any more
	}
	if err := errors.Join(out.end(), buffered.Flush()); err != nil {
		return nil, err
	}
	r := e.report
	r.Namespaces, r.Blocks, r.RawBytes, r.FileBytes = out.totals.namespaces, int64(out.totals.blocks), int64(out.totals.rawBytes), out.bytes
	return r, nil
}

// ExportDir is [Store.Export] for the closed store in dir, in which nothing is
// changed. Errors: those of Open, and of Export.
func ExportDir(ctx context.Context, dir string, w io.Writer, o ExportOptions) (*ExportReport, error) {
	return exportDir(ctx, dir, w, o, privateOptions{})
}

func exportDir(ctx context.Context, dir string, w io.Writer, o ExportOptions, private privateOptions) (r *ExportReport, err error) {
	open := workshopOptions(private)
	open.ReadOnly = true
	err = inWorkshop(dir, open, func(s *Store) (err error) {
		r, err = s.Export(ctx, w, o)
		return err
	})
	return r, err
}

// export is an Export under way.
type export struct {
	s      *Store
	o      ExportOptions
	pace   *pacer
	w      *exportWriter
	spaces map[uint32]uint32 // by number: their numbers in the file
	keys   []exportKey
	total  int64
	done   int64
	report *ExportReport
}

type exportKey struct {
	seq uint64
	key index.Key
}

// collect lists what is meant. A parent is put before its children, so that
// the order of the put sequences gives them their depth when imported.
func (e *export) collect(ctx context.Context, f *blockFilter) error {
	err := e.s.eachBlock(ctx, f, func(k index.KeyEntry) error {
		e.keys = append(e.keys, exportKey{k.Seq, k.Key})
		e.total += k.RawBytes
		return ctx.Err()
	})
	slices.SortFunc(e.keys, func(a, b exportKey) int { return cmp.Compare(a.seq, b.seq) })
	return err
}

// key exports one block.
func (e *export) key(ctx context.Context, k index.Key) error {
	if e.s.closing.Load() {
		return ErrClosed
	}
	const tries = 3 // it may move while it is read
	for try := 1; ; try++ {
		found, err := e.s.lookup(ctx, []index.Key{k}, false)
		if err != nil {
			return err
		}
		if !found[0].ok {
			e.report.Missing++
			return nil
		}
		err = e.block(ctx, k, found[0].entry)
		switch {
		case errors.Is(err, disk.ErrNoSegment) && try < tries:
			continue
		case errors.Is(err, disk.ErrNoSegment), errors.Is(err, ErrCorrupt):
			e.bad(k, err)
			return nil
		}
		return err
	}
}

func (e *export) bad(k index.Key, err error) {
	e.report.Damaged++
	if len(e.report.Bad) < exportBadMax {
		e.report.Bad = append(e.report.Bad, ExportedBad{k.Namespace, fmt.Sprintf("%x", k.Hash), err.Error()})
	}
}

// block reads and verifies a block and writes it.
func (e *export) block(ctx context.Context, k index.Key, entry index.Entry) error {
	if err := e.pace.wait(ctx, entry.Bytes()); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	img, err := e.s.readExtent(ctx, e.s.pool.Get, entry.Extent)
	if err != nil {
		return err
	}
	defer img.free()
	own := &img.ext // whose header names the parent
	if entry.IsAlias() {
		if own, err = e.s.aliasHeader(ctx, index.KeyEntry{Key: k, Entry: entry}); err != nil {
			return err
		}
	}
	planes, err := rawPlanes(img)
	if err != nil {
		return err
	}
	b := &exportedBlock{hash: []byte(k.Hash), parent: own.Parent, contentID: img.ext.ContentID}
	seal := sealOfExtent(&img.ext)
	b.planeBytes, b.chunkSums = seal.PlaneBytes, seal.ChunkSums
	if sums.Content(b.planeBytes, b.chunkSums) != b.contentID || index.TagOf(b.contentID) != entry.Content {
		return fmt.Errorf("%w: block %x: its sums do not come to the content that the index has", ErrCorrupt, k.Hash)
	}
	if b.namespace, err = e.space(k.Namespace); err != nil {
		return err
	}
	if err := e.w.block(b, planes); err != nil {
		return err
	}
	e.done += b.rawBytes()
	if e.o.Progress != nil {
		e.o.Progress(min(e.done, e.total), e.total)
	}
	return nil
}

// space is the number of a namespace in the file, which describes it before
// its first block.
func (e *export) space(number uint32) (uint32, error) {
	if n, ok := e.spaces[number]; ok {
		return n, nil
	}
	e.s.mu.Lock()
	sp := e.s.spaces[number]
	e.s.mu.Unlock()
	n, err := e.w.namespace(&exportedNamespace{tenant: sp.Tenant, layout: sp.Layout})
	e.spaces[number] = n
	return n, err
}

// rawPlanes are the raw bytes of a block that verified as it is stored; those
// of compressed chunks are decoded, and verified in turn.
func rawPlanes(img *image) (planes [][]byte, err error) {
	payload := img.payload()
	if img.ext.Codec == disk.CodecRaw {
		for _, p := range img.ext.Planes {
			planes = append(planes, payload[p.OffsetBytes:][:p.RawBytes])
		}
		return planes, nil
	}
	for _, p := range img.ext.Planes {
		planes = append(planes, make([]byte, p.RawBytes))
	}
	img.ext.EachChunk(0, len(img.ext.Chunks), func(c disk.StoredChunk) bool {
		stored, dst := payload[c.PayloadOff:][:c.StoredLen], planes[c.Plane][c.PlaneOff:][:c.RawLen]
		if entry := img.ext.Chunks[c.Index]; entry.StoredRaw(img.ext.Codec, c.RawLen) {
			copy(dst, stored)
		} else if derr := disk.DecodeChunk(dst, stored, img.ext.Codec, entry, c.RawLen); derr != nil {
			err = fmt.Errorf("%w: chunk %d: %w", ErrCorrupt, c.Index, derr)
		}
		return err == nil
	})
	return planes, err
}
