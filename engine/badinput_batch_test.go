package engine

import (
	"bytes"
	"context"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestEmptyBatch: nothing to do is done at once, and is no error.
func TestEmptyBatch(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for _, wait := range []bool{false, true} {
		if r := n.Get(context.Background(), nil, GetOptions{WaitForDevice: wait}); len(r) != 0 {
			t.Errorf("get: %+v", r)
		}
	}
	if r := n.Put(context.Background(), nil, PutOptions{Durable: true}); len(r) != 0 {
		t.Errorf("put: %+v", r)
	}
	if l, err := n.Match(context.Background(), nil); err != nil || l.Blocks() != 0 {
		t.Errorf("match: %v", err)
	}
}

// TestHugeBatch gets many times more blocks at once than buffers, queues and
// one round have room for: most of them absent, the stored ones many times.
func TestHugeBatch(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.MaxInflightBytes = 256 * kib
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	const stored, size, batch = 20, 30000, 20000
	for id := range stored {
		putPages(t, n, id, size)
	}
	for _, wait := range []bool{false, true} {
		mem := mustBuffer(t, s, batch/100*40960)
		var blocks []GetBlock
		var dest [][]byte
		at := 0
		for i := range batch {
			var p []byte
			if i%100 == 0 {
				p, at = mem[at:][:size:size], at+40960
			}
			dest = append(dest, p)
			b := GetBlock{Hash: hashOf(1000 + i), Parts: []Part{{Plane: "k", Spans: [][]byte{{0}}}}}
			if p != nil {
				b = wholeOf(i/100%stored, p)
			}
			blocks = append(blocks, b)
		}
		for i, r := range n.Get(context.Background(), blocks, GetOptions{WaitForDevice: wait}) {
			switch {
			case dest[i] == nil && r.Status != StatusMiss:
				t.Fatalf("absent block %d: %v %v", i, r.Status, r.Err)
			case dest[i] != nil && (r.Status != StatusOK || !bytes.Equal(dest[i], contentOf(i/100%stored, 0, size))):
				t.Fatalf("block %d: %v %v", i, r.Status, r.Err)
			}
		}
		wantNoBuffers(t, s)
	}
}

// TestSpansOfOneByte reads a block into as many spans as it has bytes.
func TestSpansOfOneByte(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	const size = 9000
	putPages(t, n, 1, size)
	mem := mustBuffer(t, s, size)
	b := wholeOf(1, mem)
	for i := range b.Parts {
		all := b.Parts[i].Spans[0]
		b.Parts[i].Spans = nil
		for len(all) > 0 {
			b.Parts[i].Spans, all = append(b.Parts[i].Spans, all[:1:1]), all[1:]
		}
	}
	for _, wait := range []bool{false, true} {
		clear(mem)
		r := n.Get(context.Background(), []GetBlock{b}, GetOptions{WaitForDevice: wait})[0]
		if r.Status != StatusOK || !bytes.Equal(mem, contentOf(1, 0, size)) {
			t.Errorf("wait %v: %v %v", wait, r.Status, r.Err)
		}
	}
}
