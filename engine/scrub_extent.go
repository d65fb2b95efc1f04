package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

// extent verifies one extent: header, chunks as stored and as decoded, the
// chain up to what the index holds for each key, and padding. An alias page
// has its header only.
func (p *scrubPass) extent(ctx context.Context, keys []index.KeyEntry, e index.Extent, until int64) error {
	padding, err := p.look(ctx, keys, e, until)
	switch {
	case err == nil:
		p.count(ScrubTotals{Blocks: 1})
		if padding >= 0 {
			p.count(ScrubTotals{Damaged: 1})
			f := findingOf(keys[0], e, "the fill behind a plane is not zero, as it was written: the block is whole, but something wrote to the device")
			f.Offset = padding
			p.report(f)
		}
	case errors.Is(err, ErrCorrupt):
		return p.again(ctx, keys, e, err)
	case isUnreadable(err):
		return p.unreadable(findingOf(keys[0], e, ""), err)
	default:
		return err
	}
	return nil
}

// findingOf is about the extent e of a key.
func findingOf(k index.KeyEntry, e index.Extent, reason string) ScrubFinding {
	return ScrubFinding{
		File: disk.SegmentName(e.Address.Segment), Offset: e.Address.Offset(),
		Namespace: k.Namespace, Hash: []byte(k.Hash), Reason: reason,
	}
}

// look reads an extent in pieces and verifies it. padding is where fill that
// should be zero is not, or negative.
func (p *scrubPass) look(ctx context.Context, keys []index.KeyEntry, e index.Extent, until int64) (padding int64, err error) {
	padding = -1
	b, err := p.win.bytes(ctx, e.Address.Segment, e.Address.Offset(), int(e.HeaderPages)*disk.PageBytes, until)
	if err != nil {
		return padding, err
	}
	ext, err := p.s.proveHeader(b, keys, e)
	if err != nil || ext.Kind == disk.KindAlias {
		return padding, err
	}
	base := e.Address.Offset() + int64(e.HeaderPages)*disk.PageBytes
	scratch := chunkScratch.Get().(*[sums.ChunkBytes]byte)
	defer chunkScratch.Put(scratch)
	ext.EachChunk(0, len(ext.Chunks), func(c disk.StoredChunk) bool {
		off := base + c.PayloadOff
		skip := off & (disk.PageBytes - 1)
		end := skip + int64(c.StoredLen)
		if b, err = p.win.bytes(ctx, e.Address.Segment, off-skip, int(alignUp(end)), until); err != nil {
			return false
		}
		if err = p.s.proveChunk(ext, e, c, b[skip:end], scratch); err == nil && padding < 0 && c.EndsPlane && !allZero(b[end:]) {
			padding = off + int64(c.StoredLen)
		}
		return err == nil
	})
	return padding, err
}

// proveHeader verifies a header against what the index holds for all who refer
// to it.
func (s *Store) proveHeader(b []byte, keys []index.KeyEntry, e index.Extent) (*disk.Extent, error) {
	ext, err := s.decodeHeader(b, e)
	if err != nil {
		return nil, err
	}
	if !chainHolds(ext) {
		return nil, s.corruptAt(e, 0, "the content id is not that of the chunk sums", nil)
	}
	for _, k := range keys {
		if k.Own.Address == e.Address {
			if ext.Kind != disk.KindAlias || ext.Namespace != k.Namespace || string(ext.Hash) != k.Hash || ext.Seq != k.Seq {
				return nil, s.corruptAt(e, 0, fmt.Sprintf("header of another block: namespace %d hash %x", ext.Namespace, ext.Hash), nil)
			}
			continue
		}
		if k.HeaderSum != e.HeaderSum {
			return nil, s.corruptAt(e, 0, "the index has two header sums for one extent", nil)
		}
		if err := s.checkOwner(ext, k.Key, k.Entry); err != nil {
			return nil, err
		}
	}
	return ext, nil
}

// proveChunk verifies a chunk as it is stored and, if it is compressed, its raw
// bytes.
func (s *Store) proveChunk(ext *disk.Extent, e index.Extent, c disk.StoredChunk, stored []byte, scratch *[sums.ChunkBytes]byte) error {
	entry := ext.Chunks[c.Index]
	var err error
	if entry.StoredRaw(ext.Codec, c.RawLen) {
		err = disk.VerifyStored(stored, ext.Codec, entry, c.RawLen)
	} else {
		err = disk.DecodeChunk(scratch[:c.RawLen], stored, ext.Codec, entry, c.RawLen)
	}
	if err != nil {
		return s.chunkCorrupt(ext, e, c.Index, c.PayloadOff, err)
	}
	return nil
}

// again is the second judgement, of an extent that did not verify: read anew
// as a get reads it, several times and by the other paths. What is bad then is
// quarantined, if a key still leads there.
func (p *scrubPass) again(ctx context.Context, keys []index.KeyEntry, e index.Extent, first error) error {
	s := p.s
	s.o.private.points("scrub:again")
	p.win.drop()
	if wait := p.badNext.Sub(s.o.private.now()); wait > 0 {
		if err := p.rest(ctx, min(wait, scrubBadPause)); err != nil {
			return err
		}
	}
	k, err := p.current(ctx, keys)
	if k == nil {
		return err
	}
	for wait := scrubYieldStep; ; wait = min(2*wait, time.Second) {
		err = s.retryCorrupt(nil, func(path *ioPath) error { return s.proveExtent(ctx, path, keys, e) })
		if !isWorn(err) {
			break
		}
		if err := p.rest(ctx, wait); err != nil {
			return err
		}
	}
	switch err = asUnreadable(err); {
	case err == nil:
		p.count(ScrubTotals{Blocks: 1, Transient: 1})
		p.report(findingOf(*k, e, fmt.Sprintf("it did not verify at first, and did when it was read again: %v", reasonOfBlock(first))))
	case errors.Is(err, ErrCorrupt):
		p.condemn(*k, e, err)
	case isUnreadable(err):
		return p.unreadable(findingOf(*k, e, ""), err)
	default:
		return err
	}
	return nil
}

// current is a key that still leads to the extent, or nil.
func (p *scrubPass) current(ctx context.Context, keys []index.KeyEntry) (*index.KeyEntry, error) {
	ctx, cancel := context.WithTimeout(ctx, p.s.o.CallTimeout)
	defer cancel()
	for i := range keys {
		found, err := p.s.lookup(ctx, []index.Key{keys[i].Key}, false)
		if err != nil {
			return nil, err
		}
		if r := found[0]; r.ok && r.entry.Address == keys[i].Address && r.entry.Own.Address == keys[i].Own.Address && r.entry.Seq == keys[i].Seq {
			return &keys[i], nil
		}
	}
	return nil, nil
}

// proveExtent reads a whole extent by a path and verifies it.
func (s *Store) proveExtent(ctx context.Context, path *ioPath, keys []index.KeyEntry, e index.Extent) error {
	buf, err := s.rawRead(ctx, path, s.tryBuffer, e, 0, e.Bytes())
	if err != nil {
		return err
	}
	defer buf.Free()
	ext, err := s.proveHeader(buf.Bytes()[:int64(e.HeaderPages)*disk.PageBytes], keys, e)
	if err != nil {
		return err
	}
	payload := buf.Bytes()[int64(e.HeaderPages)*disk.PageBytes:]
	scratch := chunkScratch.Get().(*[sums.ChunkBytes]byte)
	defer chunkScratch.Put(scratch)
	ext.EachChunk(0, len(ext.Chunks), func(c disk.StoredChunk) bool {
		err = s.proveChunk(ext, e, c, payload[c.PayloadOff:][:c.StoredLen], scratch)
		return err == nil
	})
	return err
}

// condemn deals with an extent that does not verify by any path.
func (p *scrubPass) condemn(k index.KeyEntry, e index.Extent, err error) {
	f := findingOf(k, e, reasonOfBlock(err))
	var be *BlockError
	if errors.As(err, &be) && be.Offset >= 0 {
		f.Offset = be.Offset
	}
	if k.Own.Address == e.Address {
		p.count(ScrubTotals{Damaged: 1})
		f.Reason += "; it is an alias page, and its block is served from the bytes that it shares. Were the index lost, a rebuild would not find this key"
		p.report(f)
		return
	}
	p.count(ScrubTotals{Bad: 1})
	if p.bad < scrubBadMax {
		p.s.quarantine(k.Key, k.Entry, reasonOfBlock(err))
		p.bad, p.badNext = p.bad+1, p.s.o.private.now().Add(scrubBadPause)
	}
	switch {
	case p.s.knownBad(e.Address):
		f.Reason += "; it is quarantined, a miss from now on"
	case p.bad >= scrubBadMax:
		f.Reason += fmt.Sprintf("; it is not quarantined: %d were in this pass. Gets find it bad by themselves", scrubBadMax)
	default:
		f.Reason += "; it is not quarantined: the store can not write, its segment is being evicted, or there were too many"
	}
	p.report(f)
}

// reasonOfBlock is what a BlockError says was wrong.
func reasonOfBlock(err error) string {
	var be *BlockError
	if errors.As(err, &be) && be.Reason != "" {
		if be.Err != nil {
			return be.Reason + ": " + be.Err.Error()
		}
		return be.Reason
	}
	return err.Error()
}
