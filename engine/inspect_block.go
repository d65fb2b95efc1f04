package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

// BlockView is all that a closed store knows of one stored block.
type BlockView struct {
	*Location
	// Extent is the one with the bytes, verified; nil if it has no sound header.
	Extent *ExtentView `json:"extent"`
	// Own is the header that was written for a block that shares its bytes.
	Own *ExtentView `json:"own,omitempty"`
	// Chunks are those of the extent, in order.
	Chunks []ChunkView `json:"chunks"`
	// Sharers are the other stored blocks with the same bytes.
	Sharers []BlockRef `json:"sharers"`
	// Parents are the blocks before it in its chain, the nearest first, up to
	// one that is not stored, 64 at most.
	Parents []ParentView `json:"parents"`
	// Problem says why a get would be a miss; empty if it would not.
	Problem   string       `json:"problem,omitempty"`
	Diagnoses []*Diagnosis `json:"diagnoses,omitempty"`
}

// ChunkView is one chunk, and whether it verifies.
type ChunkView struct {
	Plane       string `json:"plane"`
	Offset      int64  `json:"offset"` // of the stored bytes in the file
	StoredBytes int64  `json:"stored_bytes"`
	RawBytes    int64  `json:"raw_bytes"`
	RawSum      string `json:"raw_sum"` // hexadecimal, as the header has it
	Problem     string `json:"problem,omitempty"`
}

// BlockRef names a block.
type BlockRef struct {
	Namespace uint32 `json:"namespace"`
	Hash      string `json:"hash"` // hexadecimal
}

// ParentView is a block that comes before another in a chain.
type ParentView struct {
	Hash   string `json:"hash"` // hexadecimal
	Stored bool   `json:"stored"`
}

// maxParents bounds BlockView.Parents.
const maxParents = 64

// Block finds a block and looks at everything about it. Errors: ErrMiss (not
// stored), ErrDamaged (the index will be rebuilt), the context's, those of the
// file system. Damage of the block is in the view.
func (i *Inspector) Block(ctx context.Context, namespace uint32, hash []byte) (*BlockView, error) {
	k := index.Key{Namespace: namespace, Hash: string(hash)}
	l, err := i.f.locate(k)
	if err != nil {
		return nil, err
	}
	b := &BlockView{Location: l, Chunks: []ChunkView{}, Sharers: []BlockRef{}, Parents: []ParentView{}}
	at := disk.Address{Segment: l.Segment, Page: l.Page}
	if b.Extent, err = i.Extent(ctx, at.Segment, at.Page); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		b.Problem = err.Error()
		if errors.Is(err, ErrInvalid) {
			b.Problem = "the segment's file is missing: " + l.File
		}
	} else if b.Problem = b.Extent.Problem; b.Extent.HeaderSum != l.HeaderSum {
		b.Problem = "a sound extent, and not the one that the index expects (header sum " + l.HeaderSum + ")"
	}
	if err := i.lookCloser(ctx, b, at); err != nil {
		return nil, err
	}
	own := b.Extent
	if l.Alias {
		// Without it a get is still a hit; a rebuild loses the key.
		b.Own, _ = i.Extent(ctx, l.aliasSegment, uint32(l.AliasOffset/disk.PageBytes))
		own = b.Own
	}
	if own != nil && own.Hash == l.Hash {
		if b.Parents, err = i.parents(ctx, namespace, own.Parent); err != nil {
			return nil, err
		}
	}
	return b, context.Cause(ctx)
}

// lookCloser finds who else has the bytes at an address, and looks at each
// chunk of them.
func (i *Inspector) lookCloser(ctx context.Context, b *BlockView, at disk.Address) error {
	v := &verifier{offline: i.f, out: &findings{r: newVerifyReport("", Sample{})}}
	want, err := v.expectations(ctx, at.Segment, nil)
	if err != nil {
		return err
	}
	for _, x := range want {
		if x.page != at.Page {
			continue
		}
		for _, k := range x.blocks {
			if ref := (BlockRef{k.Namespace, hex.EncodeToString([]byte(k.Hash))}); ref != (BlockRef{b.Namespace, b.Hash}) {
				b.Sharers = append(b.Sharers, ref)
			}
		}
		return i.chunks(ctx, v, b, x)
	}
	return nil
}

// chunks looks at each chunk of an extent, and at what is wrong with it.
func (i *Inspector) chunks(ctx context.Context, v *verifier, b *BlockView, x *expected) error {
	h, err := i.f.s.vol.Acquire(b.Segment)
	if err != nil {
		return nil // the extent could not be read: that is said
	}
	defer h.Release()
	info, err := h.File(false).Stat()
	if err != nil {
		return err
	}
	w := &segmentWalk{v: v, i: disk.SegmentInfo{ID: b.Segment, SizeBytes: info.SizeBytes}}
	none := func(int64) {}
	if w.win, err = newWindow(h, info.SizeBytes, func(int64) error { return context.Cause(ctx) }, none); err != nil {
		return err
	}
	defer w.win.buf.Free()
	e, bad := w.expectedHeader(x)
	if e != nil {
		b.Chunks = w.chunkViews(e)
		bad = w.payload(e)
	}
	if bad != nil {
		b.Diagnoses = w.diagnose(x, bad)
		if err := v.findMisplaced(ctx, i.f.s.vol.Segments()); err != nil {
			return err
		}
	}
	return w.win.err
}

func (w *segmentWalk) chunkViews(e *disk.Extent) []ChunkView {
	out := []ChunkView{}
	base := e.Address.Offset() + int64(e.HeaderPages)*disk.PageBytes
	scratch := chunkScratch.Get().(*[sums.ChunkBytes]byte)
	defer chunkScratch.Put(scratch)
	e.EachChunk(0, len(e.Chunks), func(c disk.StoredChunk) bool {
		v := ChunkView{
			Plane: e.Planes[c.Plane].Name, Offset: base + c.PayloadOff, StoredBytes: int64(c.StoredLen), RawBytes: int64(c.RawLen),
			RawSum: fmt.Sprintf("%016x", e.Chunks[c.Index].RawSum),
		}
		stored, _, err := w.chunk(v.Offset, c)
		if err == nil {
			err = verifyChunk(scratch, stored, e, c)
		}
		if err != nil {
			v.Problem = chunkReason(err)
		}
		out = append(out, v)
		return true
	})
	return out
}

// parents follows a chain of blocks towards its root.
func (i *Inspector) parents(ctx context.Context, namespace uint32, hash string) ([]ParentView, error) {
	out := []ParentView{}
	for hash != "" && len(out) < maxParents {
		p, err := hex.DecodeString(hash)
		if err != nil {
			return out, err
		}
		l, err := i.f.locate(index.Key{Namespace: namespace, Hash: string(p)})
		if errors.Is(err, ErrMiss) {
			return append(out, ParentView{Hash: hash}), nil
		}
		if err != nil {
			return out, err
		}
		out = append(out, ParentView{Hash: hash, Stored: true})
		at := disk.Address{Segment: l.Segment, Page: l.Page}
		if l.Alias {
			at = disk.Address{Segment: l.aliasSegment, Page: uint32(l.AliasOffset / disk.PageBytes)}
		}
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		e, _, err := i.f.s.vol.ReadExtent(at)
		if err != nil || hex.EncodeToString(e.Hash) != hash {
			return out, nil // its header is damaged: the chain is not known further
		}
		hash = hex.EncodeToString(e.Parent)
	}
	return out, nil
}
