package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// splitSizes are blocks that are read in parts: of whole pages, and with
// broken last pages in both planes.
var splitSizes = []int{640 << 10, 768<<10 + 4096, 900001, 1 << 20}

// TestSplitReads: a large block that is read by itself takes several reads,
// and among many it takes one.
func TestSplitReads(t *testing.T) {
	s := mustOpen(t, bigOptions())
	defer mustClose(t, s)
	n := mustSpace(t, s)
	first, _ := fakePaths(s)
	for id, size := range splitSizes {
		putPages(t, n, id, size)
	}
	mem := mustBuffer(t, s, 4<<20)
	for _, wait := range []bool{false, true} {
		for id, size := range splitSizes {
			clear(mem)
			before := first.reads.Load()
			r := n.Get(context.Background(), []GetBlock{wholeOf(id, mem[:size])}, GetOptions{WaitForDevice: wait, WantSeal: true})[0]
			if r.Status != StatusOK || !bytes.Equal(mem[:size], contentOf(id, 0, size)) || r.Bytes != int64(size) || r.VerifiedBytes != int64(size) {
				t.Fatalf("size %d: %v %v, %d bytes, %d verified", size, r.Status, r.Err, r.Bytes, r.VerifiedBytes)
			}
			if reads := first.reads.Load() - before; reads < 2 || reads > splitPartsMax {
				t.Errorf("size %d: %d reads", size, reads)
			}
		}
		var batch []GetBlock
		for id := range 3 {
			batch = append(batch, wholeOf(id, mem[id<<20:][:splitSizes[id]]))
		}
		before := first.reads.Load()
		for id, r := range n.Get(context.Background(), batch, GetOptions{WaitForDevice: wait}) {
			if r.Status != StatusOK || !bytes.Equal(mem[id<<20:][:splitSizes[id]], contentOf(id, 0, splitSizes[id])) {
				t.Fatalf("block %d of a batch: %v %v", id, r.Status, r.Err)
			}
		}
		if reads := first.reads.Load() - before; reads != 3 {
			t.Errorf("%d reads for a batch of 3", reads)
		}
	}
	if st := s.Stats(); st.ReadAlone != 0 || st.Rereads != 0 {
		t.Errorf("%d blocks read alone, %d read again", st.ReadAlone, st.Rereads)
	}
	wantNoBuffers(t, s)
}

// TestLaw1SplitReads flips a byte of each part in turn: seen once it costs a
// read, seen always it is a corrupt block, and the destination has none of it.
func TestLaw1SplitReads(t *testing.T) {
	const size = 900001
	for _, wait := range []bool{false, true} {
		for _, once := range []bool{true, false} {
			var flip flipReads
			o := bigOptions()
			o.private.fs = vfs.WithReadFilter(vfs.NewMem(), flip.filter)
			s := mustOpen(t, o)
			n := mustSpace(t, s)
			p := mustBuffer(t, s, size)
			for id := range 6 {
				putPages(t, n, id, size)
			}
			mustFlush(t, s)
			found, err := s.lookup(context.Background(), n.mustKeys(t, 0, 1, 2, 3, 4, 5), false)
			if err != nil {
				t.Fatal(err)
			}
			for id := range 6 {
				e := found[id].entry
				at := e.Address.Offset() + 100 + int64(id)*(e.Bytes()-disk.PageBytes)/6
				name := fmt.Sprintf("wait %v, once %v, byte %d", wait, once, at-e.Address.Offset())
				flip.once.Store(once)
				flip.aim(disk.SegmentName(e.Address.Segment), at)
				for i := range p {
					p[i] = 0xa5
				}
				r := n.Get(context.Background(), []GetBlock{wholeOf(id, p)}, GetOptions{WaitForDevice: wait})[0]
				switch {
				case once && (r.Status != StatusOK || !bytes.Equal(p, contentOf(id, 0, size))):
					t.Errorf("%s: %v %v", name, r.Status, r.Err)
				case !once && r.Status != StatusCorrupt:
					t.Errorf("%s: %v", name, r.Status)
				case !once && !wait && !untouched(p), !once && wait && !oldOrZero(p):
					t.Errorf("%s: the destination holds what did not verify", name)
				}
			}
			wantNoBuffers(t, s)
			mustClose(t, s)
		}
	}
}

// TestLaw2SplitReads: one part of a block fails to be read. What the others
// brought is not verified, and must not stay with the caller.
func TestLaw2SplitReads(t *testing.T) {
	const size = 900001
	s := mustOpen(t, bigOptions())
	defer mustClose(t, s)
	n := mustSpace(t, s)
	putPages(t, n, 0, size)
	first, _ := fakePaths(s)
	broken := errors.New("broken")
	first.fail.Store(&broken)
	p := mustBuffer(t, s, size)
	for part := range int64(3) {
		first.failOnly.Store(part + 1)
		for _, wait := range []bool{true, false} {
			for i := range p {
				p[i] = 0xa5
			}
			r := n.Get(context.Background(), []GetBlock{wholeOf(0, p)}, GetOptions{WaitForDevice: wait})[0]
			if r.Status != StatusIOError || !errors.Is(r.Err, broken) {
				t.Errorf("part %d, wait %v: %v %v", part, wait, r.Status, r.Err)
			}
			if !oldOrZero(p) {
				t.Errorf("part %d, wait %v: unverified bytes stay with the caller", part, wait)
			}
		}
	}
	wantNoBuffers(t, s)
}

func oldOrZero(p []byte) bool {
	for _, b := range p {
		if b != 0 && b != 0xa5 {
			return false
		}
	}
	return true
}
