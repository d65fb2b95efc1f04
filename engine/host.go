package engine

import (
	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/tiers/host"
)

// The cache in memory is asked only for what the index holds, under the put
// sequence and the content that the index holds for it: so nothing that was
// dropped, quarantined, put again or is of an older epoch is ever served, and
// whoever changes the index need not know of the cache.

func hostKey(k index.Key) host.Key { return host.Key{Space: k.Namespace, Hash: k.Hash} }

func hostVersion(e index.Entry) host.Version {
	return host.Version{Seq: e.Seq, Content: e.Content}
}

// indexChanged is told what an update of the index has changed.
func (s *Store) indexChanged(changes []index.Change) {
	s.hintChanged(changes)
	s.hostChanged(changes)
}

// hostChanged gives memory back of blocks that are gone. A move unbinds a key
// and binds it again at once.
func (s *Store) hostChanged(changes []index.Change) {
	if s.host == nil {
		return
	}
	for i, c := range changes {
		if c.Bound {
			continue
		}
		if i+1 < len(changes) && changes[i+1].Bound && changes[i+1].Key == c.Key && changes[i+1].Seq == c.Seq {
			continue
		}
		s.host.Remove(hostKey(c.Key), c.Seq)
	}
}

// hostCorrupt drops a block that did not verify in memory. The disk is not to
// blame, so nothing is quarantined.
func (s *Store) hostCorrupt(k index.Key, b *host.Block, cause error) {
	s.host.Corrupt(b)
	if n := s.host.Stats().Corrupt; n&(n-1) == 0 { // the 1st, 2nd, 4th …
		s.event(EventHostMemory, "block %x in the cache in memory did not verify (%v) and was read from disk instead; %d so far: check the host's memory if it goes on", k.Hash, cause, n)
	}
}

// hostBlock takes room in the cache for a block as its header has it, or
// returns nil: there is none for it.
func (s *Store) hostBlock(ext *disk.Extent) *host.Block {
	if s.host == nil {
		return nil
	}
	planeBytes := make([]int64, len(ext.Planes))
	for i := range ext.Planes {
		planeBytes[i] = ext.Planes[i].RawBytes
	}
	b, err := s.host.New(planeBytes)
	if err != nil {
		return nil // counted as rejected
	}
	chunks := make([]uint64, len(ext.Chunks))
	for i := range ext.Chunks {
		chunks[i] = ext.Chunks[i].RawSum
	}
	b.SetSums(chunks, ext.ContentID)
	return b
}

func (s *Store) hostStats() HostStats {
	h := s.host.Stats()
	return HostStats{
		CapacityBytes: h.CapacityBytes, Bytes: h.Bytes, Blocks: h.Blocks, LentBytes: h.LentBytes,
		Hits: h.Hits, Misses: h.Misses, Inserted: h.Inserted, Evicted: h.Evicted, Rejected: h.Rejected,
		Stale: h.Stale, Corrupt: h.Corrupt,
		ServedBytes: s.count.hostServed.Load(), VerifiedBytes: s.count.hostVerified.Load(),
	}
}
