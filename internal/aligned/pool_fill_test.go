package aligned

import (
	"errors"
	"syscall"
	"testing"
)

// TestFillingInFails: without memory a request is an error, takes no room, and
// the next one is served.
func TestFillingInFails(t *testing.T) {
	fail := true
	p := New(Options{LimitBytes: 4 << 20, IdleInterval: -1, populate: func(mem []byte) (bool, error) {
		if fail {
			return false, syscall.ENOMEM
		}
		return populate(mem)
	}})
	defer mustClose(t, p)
	if b, err := p.TryGet(1 << 20); !errors.Is(err, syscall.ENOMEM) || b != nil {
		t.Errorf("TryGet without memory: %v, %v", b, err)
	}
	if inUse, _, _ := p.Stats(); inUse != 0 {
		t.Errorf("%d bytes in use", inUse)
	}
	fail = false
	b := mustGet(t, p, 3<<20)
	mark(b.Bytes(), 1)
	b.Free()
}

// TestFillingInByTouch is the way of kernels that know no better; bytes of
// others in the same huge page are left alone.
func TestFillingInByTouch(t *testing.T) {
	p := New(Options{LimitBytes: 4 << 20, IdleInterval: -1, populate: func([]byte) (bool, error) { return false, nil }})
	defer mustClose(t, p)
	a := mustGet(t, p, 100<<10)
	mark(a.Bytes(), 1)
	p.mu.Lock()
	p.squeeze(0) // the rest of the block is cold again
	p.mu.Unlock()
	b := mustGet(t, p, 1<<20)
	mark(b.Bytes(), 2)
	if !marked(a.Bytes(), 1) {
		t.Error("a neighbour's bytes changed")
	}
	a.Free()
	b.Free()
}

// TestReturnedWhileFilledIn: what a fill brings back of pages that were
// returned meanwhile goes once more, so that nothing is held unseen.
func TestReturnedWhileFilledIn(t *testing.T) {
	var p *Pool
	p = New(Options{LimitBytes: 4 << 20, IdleInterval: -1, populate: func(mem []byte) (bool, error) {
		p.mu.Lock()
		p.squeeze(0)
		p.mu.Unlock()
		for i := range mem {
			mem[i] = 9
		}
		return true, nil
	}})
	defer mustClose(t, p)
	if p.kind != HugeTHP {
		t.Skipf("no transparent huge pages: %s", p.hugeReason)
	}
	b := mustGet(t, p, 100<<10)
	checkStats(t, p, 104<<10, 0)
	mem := b.slab.mem
	if mem[0] != 9 || mem[104<<10-1] != 9 || mem[104<<10] != 0 || mem[HugePageBytes-1] != 0 {
		t.Error("the buffer was returned, or the rest was not")
	}
	b.Free()
}

// TestLimitInPieces: free memory in pieces too small for a request makes room
// for it by going back to the kernel.
func TestLimitInPieces(t *testing.T) {
	const limit = 8 << 20
	p := New(Options{LimitBytes: limit, IdleInterval: -1})
	defer mustClose(t, p)
	var out, pieces []*Buffer
	for i := range limit / (256 << 10) {
		b := mustGet(t, p, 256<<10)
		mark(b.Bytes(), uint64(i))
		if i%4 == 0 {
			pieces = append(pieces, b)
		} else {
			out = append(out, b)
		}
	}
	for _, b := range out {
		b.Free()
	}
	checkStats(t, p, limit/4, limit*3/4)
	big := mustGet(t, p, limit*3/4)
	checkStats(t, p, limit, 0)
	mark(big.Bytes(), 100)
	for i, b := range pieces {
		if !marked(b.Bytes(), uint64(4*i)) {
			t.Errorf("piece %d changed", i)
		}
		b.Free()
	}
	if !marked(big.Bytes(), 100) {
		t.Error("the large buffer changed")
	}
	big.Free()
}
