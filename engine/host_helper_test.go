package engine

import (
	"bytes"
	"context"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/host"
)

// hostOptions is testOptions with a cache in memory, and room for blocks of
// several chunks.
func hostOptions(fs vfs.FS) Options {
	o := testOptions(fs)
	o.CapacityBytes, o.SegmentBytes, o.MaxBlockBytes = 24*mib, mib, 256*kib
	o.HostCacheBytes = 4 * mib
	return o
}

// hostHolds is the block of an id in the cache as the index has it, or nil. It
// is to be released.
func hostHolds(t testing.TB, n *Namespace, id int) *host.Block {
	t.Helper()
	k := index.Key{Namespace: n.info.Number, Hash: string(hashOf(id))}
	found, err := n.s.lookup(context.Background(), []index.Key{k}, false)
	if err != nil {
		t.Fatal(err)
	}
	if !found[0].ok {
		return nil
	}
	return n.s.host.Get(hostKey(k), hostVersion(found[0].entry))
}

func isInHost(t testing.TB, n *Namespace, id int) bool {
	t.Helper()
	b := hostHolds(t, n, id)
	if b != nil {
		b.Release()
	}
	return b != nil
}

// flipInHost changes one bit of a block in memory, as a bad module would. It
// reports false if the block is not there.
func flipInHost(t testing.TB, n *Namespace, id, at, bit int) bool {
	t.Helper()
	b := hostHolds(t, n, id)
	if b == nil {
		return false
	}
	defer b.Release()
	for _, p := range b.Planes() {
		if at < len(p) {
			p[at] ^= 1 << bit
			return true
		}
		at -= len(p)
	}
	t.Fatalf("block %d has no byte %d", id, at)
	return false
}

// hostDelta is how the figures of the cache grew in a call.
func hostDelta(s *Store, call func()) (hits, misses, fetches int64) {
	before := s.Stats()
	call()
	after := s.Stats()
	return after.Host.Hits - before.Host.Hits, after.Host.Misses - before.Host.Misses, after.Fetches - before.Fetches
}

// wantView holds what a view shows of a block against what was put.
func wantView(t testing.TB, n *Namespace, id, variant, size int) {
	t.Helper()
	v := n.View(context.Background(), [][]byte{hashOf(id)}, ViewOptions{WantSeal: true})[0]
	defer v.Release()
	p := contentOf(id, variant, size)
	if v.Status != StatusOK || !bytes.Equal(bytes.Join(v.Planes, nil), p) {
		t.Fatalf("view %d: %v %v, or WRONG BYTES", id, v.Status, v.Err)
	}
	if want := SealOf(p[:size/3], p[size/3:]); v.Seal == nil || v.Seal.ContentID != want.ContentID {
		t.Fatalf("view %d: seal %v", id, v.Seal)
	}
}
