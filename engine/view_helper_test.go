package engine

import (
	"bytes"
	"context"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/engine/layout"
)

// oneLayout has one plane of any size, as that of plain keys has.
func oneLayout() layout.Layout { return layout.Opaque("one plane") }

func viewOne(n *Namespace, hash []byte) View {
	return n.View(context.Background(), [][]byte{hash}, ViewOptions{})[0]
}

func hashesOf(ids ...int) (out [][]byte) {
	for _, id := range ids {
		out = append(out, hashOf(id))
	}
	return out
}

// wantShown fails unless a view shows the planes of a block of two, made by
// blockOf, and releases it.
func wantShown(t testing.TB, v *View, id, variant, size int) {
	t.Helper()
	if v.Status != StatusOK || v.Err != nil {
		t.Fatalf("view of block %d: %v %v", id, v.Status, v.Err)
	}
	p := contentOf(id, variant, size)
	if len(v.Planes) != 2 || !bytes.Equal(v.Planes[0], p[:size/3]) || !bytes.Equal(v.Planes[1], p[size/3:]) {
		t.Fatalf("view of block %d: WRONG BYTES with status OK", id)
	}
	for i, p := range v.Planes {
		if cap(p) != len(p) {
			t.Errorf("block %d plane %d: %d bytes more than the plane can be seen", id, i, cap(p)-len(p))
		}
	}
	if v.VerifiedBytes != int64(size) || v.Bytes() != int64(size) {
		t.Errorf("block %d: %d bytes, %d verified, want %d", id, v.Bytes(), v.VerifiedBytes, size)
	}
	v.Release()
}

// wantNothingLent fails if a view that is not OK shows anything, or holds it.
func wantNothingLent(t testing.TB, v *View, want Status) {
	t.Helper()
	if v.Status != want || v.Err == nil {
		t.Fatalf("view: %v %v, want %v", v.Status, v.Err, want)
	}
	if v.Planes != nil || v.Seal != nil || v.held != nil || v.VerifiedBytes != 0 {
		t.Fatalf("view with status %v lends something: %+v", v.Status, v)
	}
}

// wantAllReleased fails unless all memory that was lent is back, and Close has
// nothing to wait for.
func wantAllReleased(t testing.TB, s *Store) {
	t.Helper()
	wantNoBuffers(t, s)
	eventually(t, "nothing is lent", func() bool { return s.lent.heldBytes.Load() == 0 })
	if st := s.Stats(); st.LentBytes != 0 || st.InflightBytes != 0 {
		t.Errorf("%d bytes lent, %d in flight", st.LentBytes, st.InflightBytes)
	}
	eventually(t, "the gate has all of its bytes back", func() bool { return s.lent.free.TryAcquire(s.lent.maxBytes) })
	s.lent.free.Release(s.lent.maxBytes)
}

func entryOfKey(t testing.TB, s *Store, k index.Key) index.Entry {
	t.Helper()
	found, err := s.lookup(context.Background(), []index.Key{k}, false)
	if err != nil || !found[0].ok {
		t.Fatalf("lookup %x: %+v %v", k.Hash, found, err)
	}
	return found[0].entry
}
