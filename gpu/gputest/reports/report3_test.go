package reports_test

import (
	"context"
	"errors"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
)

// TestReport3LayoutDiffers: prefill and decode disagree on the KV layout, one
// with the hybrid KV-cache manager and one without. The field had two hashes
// that differ. Here the difference is named, with both values, and no block
// written under one layout is served under the other.
func TestReport3LayoutDiffers(t *testing.T) {
	s := newStore(t)
	ctx := context.Background()
	prefill := layout.Opaque("model")
	prefill.HybridKVManager = layout.On
	decode := prefill
	decode.HybridKVManager = layout.Off
	a, err := s.store.Namespace(ctx, prefill, "tenant-b", engine.NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	block := contentOf(1, 5000)
	if r := a.Put(ctx, []engine.PutBlock{{Hash: hashOf(1), Planes: []engine.PlaneData{{Name: "", Spans: [][]byte{block}}}}}, engine.PutOptions{})[0]; r.Status != engine.StatusOK {
		t.Fatal(r.Err)
	}
	_, err = s.store.Namespace(ctx, decode, "tenant-b", engine.NamespaceOptions{RequireMatch: true})
	var mismatch *engine.LayoutMismatchError
	if !errors.As(err, &mismatch) || len(mismatch.Differences) != 1 || mismatch.Differences[0].Field != "hybrid_kv_manager" ||
		mismatch.Differences[0].A != `"on"` || mismatch.Differences[0].B != `"off"` {
		t.Fatalf("%v", err)
	}
	b, err := s.store.Namespace(ctx, decode, "tenant-b", engine.NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if d := b.Differences(); len(d) != 1 || d[0].Field != "hybrid_kv_manager" {
		t.Errorf("%v", d)
	}
	got := make([]byte, len(block))
	get := func(n *engine.Namespace) engine.Status {
		return n.Get(ctx, []engine.GetBlock{{Hash: hashOf(1), Parts: []engine.Part{{Spans: [][]byte{got}}}}}, engine.GetOptions{})[0].Status
	}
	if st := get(b); st != engine.StatusMiss {
		t.Errorf("the block of the other layout: %v", st)
	}
	if st := get(a); st != engine.StatusOK || string(got) != string(block) {
		t.Errorf("the block of its own layout: %v", st)
	}
}
