package engine

import (
	"bytes"
	"context"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

// shareable looks for an extent of the tenant with the image's content. It
// returns nil if there is none, or sharing is off. On success the item is a
// guest of that extent's segment until its record is logged or given up, so
// no eviction takes the bytes away.
//
// Equal ids are no proof of equal bytes: the stored bytes are read, verified
// and compared. Only an applied extent is shared, so that what is
// acknowledged never hangs on bytes that are in memory alone.
func (s *Store) shareable(ctx context.Context, it *putItem, img *image) (*index.Extent, error) {
	if s.o.NoSharing {
		return nil, nil
	}
	e, ok, err := s.idx.Content(ctx, s.tenantOf(it.key.Namespace), index.TagOf(img.ext.ContentID))
	if err != nil || !ok {
		return nil, nil //nolint:nilerr // without an answer the block is written in full
	}
	guest := s.beGuest(e.Address, guestShares)
	if guest == nil {
		return nil, nil
	}
	if !s.sameBytes(ctx, e, img) {
		s.endGuest(&guest)
		return nil, nil
	}
	it.shared = guest
	return &e, nil
}

// Purposes of a guest: who shares an extent stays away from a victim from the
// start, who only writes a tombstone until the EVICT is logged.
const (
	guestShares = iota
	guestBuries
)

// beGuest holds a segment against eviction; nil if it is too late for that,
// or if the address is known to be bad and the purpose is to share it.
func (s *Store) beGuest(a disk.Address, purpose int) *segment {
	s.mu.Lock()
	defer s.mu.Unlock()
	seg := s.segs[a.Segment]
	if seg == nil || seg.evicted {
		return nil
	}
	if _, bad := s.spoilt[a]; purpose == guestShares && (bad || seg.victim) {
		return nil
	}
	seg.guests++
	return seg
}

func (s *Store) endGuest(seg **segment) {
	if *seg == nil {
		return
	}
	s.mu.Lock()
	(*seg).guests--
	s.progressLocked()
	s.mu.Unlock()
	*seg = nil
}

// sameBytes compares the stored extent with the image, plane by plane, after
// verifying it.
func (s *Store) sameBytes(ctx context.Context, e index.Extent, img *image) bool {
	got, err := s.readExtent(ctx, s.tryBuffer, e)
	if err != nil {
		return false
	}
	defer got.free()
	return sameRaw(got, img)
}

// sameRaw compares raw bytes, of got as it is stored, whatever its codec, and
// of img, which is not compressed yet.
func sameRaw(got, img *image) bool {
	if len(got.ext.Planes) != len(img.ext.Planes) {
		return false
	}
	for i := range got.ext.Planes {
		if got.ext.Planes[i].RawBytes != img.ext.Planes[i].RawBytes {
			return false
		}
	}
	stored, raw := got.payload(), img.payload()
	scratch := chunkScratch.Get().(*[sums.ChunkBytes]byte)
	defer chunkScratch.Put(scratch)
	same := true
	got.ext.EachChunk(0, len(got.ext.Chunks), func(c disk.StoredChunk) bool {
		a := stored[c.PayloadOff:][:c.StoredLen]
		if entry := &got.ext.Chunks[c.Index]; !entry.StoredRaw(got.ext.Codec, c.RawLen) {
			same = disk.DecodeChunk(scratch[:c.RawLen], a, got.ext.Codec, *entry, c.RawLen) == nil
			a = scratch[:c.RawLen]
		}
		b := raw[img.ext.Planes[c.Plane].OffsetBytes+c.PlaneOff:][:c.RawLen]
		same = same && bytes.Equal(a, b)
		return same
	})
	return same
}
