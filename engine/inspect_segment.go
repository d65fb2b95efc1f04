package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// SegmentView is what a segment file holds, by its footer or, without one, by
// the headers in it; no payload is read.
type SegmentView struct {
	ID             uint64 `json:"id"`
	File           string `json:"file"`
	Class          string `json:"class"` // fresh or moved
	Sealed         bool   `json:"sealed"`
	SizeBytes      int64  `json:"size_bytes"`
	AllocatedBytes int64  `json:"allocated_bytes"` // with the tombstones
	Extents        int    `json:"extents"`
	Aliases        int    `json:"aliases"` // of the extents: headers alone
	ExtentBytes    int64  `json:"extent_bytes"`
	// LiveBytes are extents that the index refers to; DeadBytes are the other
	// extents, aliases left out.
	LiveBytes  int64 `json:"live_bytes"`
	DeadBytes  int64 `json:"dead_bytes"`
	Tombstones int   `json:"tombstones"`
	// Problem is what can be seen to be wrong at this depth; empty if nothing.
	Problem string `json:"problem,omitempty"`
}

// Segments lists the segments by age, oldest first.
func (i *Inspector) Segments(ctx context.Context) ([]SegmentView, error) {
	out := []SegmentView{}
	for _, g := range i.f.s.vol.Segments() {
		v, err := i.segment(ctx, g)
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}

func (i *Inspector) segment(ctx context.Context, g disk.SegmentInfo) (SegmentView, error) {
	v := SegmentView{
		ID: g.ID, File: disk.SegmentName(g.ID), Class: className(g.Class), Sealed: g.Sealed,
		SizeBytes: g.SizeBytes, AllocatedBytes: g.AllocatedBytes, LiveBytes: i.f.s.live[g.ID],
	}
	entries, err := i.entries(ctx, g)
	if ctx.Err() != nil {
		return v, context.Cause(ctx)
	}
	ts, tombErr := i.f.s.vol.ReadTombstones(g.ID)
	if vfs.IsNotExist(tombErr) && len(entries) == 0 {
		tombErr = nil // never finished
	}
	if err := errors.Join(g.HeaderErr, err, tombErr); err != nil {
		v.Problem = err.Error()
	}
	v.Tombstones, v.Extents = len(ts), len(entries)
	for _, e := range entries {
		n := int64(e.EndPage()-e.Page) * disk.PageBytes
		v.ExtentBytes += n
		if e.Kind == disk.KindAlias {
			v.Aliases++
		} else {
			v.DeadBytes += n
		}
	}
	v.DeadBytes = max(0, v.DeadBytes-v.LiveBytes)
	return v, nil
}

// entries are those of the footer, or of a walk.
func (i *Inspector) entries(ctx context.Context, g disk.SegmentInfo) ([]disk.FooterEntry, error) {
	if g.Sealed {
		return i.f.s.vol.ReadFooter(g.ID)
	}
	var out []disk.FooterEntry
	err := i.f.s.vol.ScanSegment(ctx, g.ID, func(e *disk.Extent, sum uint64, _ disk.Address) error {
		out = append(out, disk.EntryOf(e, sum))
		return nil
	})
	return out, err
}

func className(c uint8) string {
	switch c {
	case disk.ClassFresh:
		return "fresh"
	case disk.ClassMoved:
		return "moved"
	}
	return fmt.Sprintf("class %d", c)
}

// PlaneView is one plane of an extent.
type PlaneView struct {
	Name        string `json:"name"`
	RawBytes    int64  `json:"raw_bytes"`
	StoredBytes int64  `json:"stored_bytes"`
	OffsetBytes int64  `json:"offset_bytes"` // in the payload
}

// ExtentView is a decoded extent header, with the verdict on all its bytes.
type ExtentView struct {
	File         string      `json:"file"`
	Segment      uint64      `json:"segment"`
	Page         uint32      `json:"page"`
	Offset       int64       `json:"offset"`
	HeaderPages  uint16      `json:"header_pages"`
	PayloadPages uint32      `json:"payload_pages"`
	HeaderSum    string      `json:"header_sum"` // hexadecimal
	Kind         string      `json:"kind"`
	Codec        uint8       `json:"codec"`
	Namespace    uint32      `json:"namespace"`
	Hash         string      `json:"hash"`
	Parent       string      `json:"parent,omitempty"`
	PlainKey     string      `json:"plain_key,omitempty"` // hexadecimal
	Sequence     uint64      `json:"sequence"`
	Depth        uint32      `json:"depth"`
	ContentID    string      `json:"content_id"`
	Target       string      `json:"target,omitempty"` // of an alias, when it was written
	RawBytes     int64       `json:"raw_bytes"`
	Planes       []PlaneView `json:"planes"`
	ChunkSums    []string    `json:"chunk_sums"` // hexadecimal, plane after plane
	// Verified: every chunk matches its sum and all fill is zero; else Problem
	// says what does not hold. An alias has no bytes of its own.
	Verified bool   `json:"verified"`
	Problem  string `json:"problem,omitempty"`
}

// Extent reads the header at a page of a segment and verifies its payload. An
// error means that there is no sound header in this place: ErrCorrupt, or
// ErrUnsupported, or those of the file system.
func (i *Inspector) Extent(ctx context.Context, segment uint64, page uint32) (*ExtentView, error) {
	at := disk.Address{Segment: segment, Page: page}
	e, sum, err := i.f.s.vol.ReadExtent(at)
	switch {
	case errors.Is(err, disk.ErrNoSegment):
		return nil, invalidf("there is no segment %d (%s)", segment, disk.SegmentName(segment))
	case errors.Is(err, disk.ErrCorrupt):
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	case errors.Is(err, disk.ErrUnsupported):
		return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
	case err != nil:
		return nil, err
	}
	v := extentView(e, sum)
	err = i.f.s.vol.VerifyExtent(ctx, at, sum)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if v.Verified = err == nil; !v.Verified {
		v.Problem = err.Error()
	}
	return v, nil
}

func extentView(e *disk.Extent, sum uint64) *ExtentView {
	v := &ExtentView{
		File: disk.SegmentName(e.Address.Segment), Segment: e.Address.Segment, Page: e.Address.Page, Offset: e.Address.Offset(),
		HeaderPages: e.HeaderPages, PayloadPages: e.PayloadPages, HeaderSum: fmt.Sprintf("%016x", sum),
		Kind: e.Kind.String(), Codec: e.Codec, Namespace: e.Namespace, Hash: hex.EncodeToString(e.Hash),
		Parent: hex.EncodeToString(e.Parent), PlainKey: hex.EncodeToString(e.PlainKey), Sequence: e.Seq, Depth: e.Depth,
		ContentID: hex.EncodeToString(e.ContentID[:]), RawBytes: e.RawBytes(), Planes: []PlaneView{}, ChunkSums: []string{},
	}
	if e.Kind == disk.KindAlias {
		v.Target = e.Target.String()
	}
	for _, p := range e.Planes {
		v.Planes = append(v.Planes, PlaneView{p.Name, p.RawBytes, p.StoredBytes, p.OffsetBytes})
	}
	for _, c := range e.Chunks {
		v.ChunkSums = append(v.ChunkSums, fmt.Sprintf("%016x", c.RawSum))
	}
	return v
}
