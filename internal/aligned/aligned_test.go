package aligned

import (
	"errors"
	"sync"
	"testing"
)

func TestAlloc(t *testing.T) {
	for _, size := range []int{1, 511, 4096, 4097, 1 << 20, HugePageBytes, HugePageBytes + 1, 5<<20 + 123} {
		b, err := Alloc(size)
		if err != nil {
			t.Fatalf("Alloc(%d): %v", size, err)
		}
		p := b.Bytes()
		align := PageBytes
		if size >= HugePageBytes {
			align = wantHugeAlign
		}
		if len(p) != size || cap(p)%PageBytes != 0 || cap(p) < size {
			t.Errorf("Alloc(%d): len %d, cap %d", size, len(p), cap(p))
		}
		if !IsAligned(p, align) {
			t.Errorf("Alloc(%d) begins at %p, want a multiple of %d", size, p, align)
		}
		whole := p[:cap(p)]
		for i, c := range whole {
			if c != 0 {
				t.Fatalf("Alloc(%d): byte %d is %d", size, i, c)
			}
			whole[i] = 0xa5 // the whole capacity can be written
		}
		b.Free()
		if b.Bytes() != nil {
			t.Errorf("Alloc(%d): bytes after Free", size)
		}
	}
}

func TestAllocRefuses(t *testing.T) {
	for _, size := range []int{0, -1, maxAllocBytes + 1} {
		if _, err := Alloc(size); !errors.Is(err, ErrInvalidSize) {
			t.Errorf("Alloc(%d): %v, want ErrInvalidSize", size, err)
		}
	}
	// A size that is valid and that no machine has.
	if b, err := Alloc(maxAllocBytes); err == nil || b != nil {
		t.Errorf("Alloc(%d) = %v, %v, want an error", int64(maxAllocBytes), b, err)
	}
}

func TestFreeTwiceIsCounted(t *testing.T) {
	b, err := Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	before := DoubleFrees()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(b.Free)
	}
	wg.Wait()
	if got := DoubleFrees() - before; got != 3 {
		t.Errorf("4 calls of Free counted %d double ones, want 3", got)
	}
	// An unmap done twice would take the memory of whoever came after.
	c, err := Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	b.Free()
	c.Bytes()[0] = 1
	c.Free()
}

func TestNilBuffer(t *testing.T) {
	var b *Buffer
	before := DoubleFrees()
	b.Free()
	if b.Bytes() != nil || DoubleFrees() != before {
		t.Error("a nil buffer did something")
	}
}

func TestIsAligned(t *testing.T) {
	b, err := Alloc(2 * PageBytes)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Free()
	p := b.Bytes()
	for _, c := range []struct {
		p    []byte
		n    int
		want bool
	}{
		{p, 1, true}, {p, 512, true}, {p, PageBytes, true},
		{p[1:], 1, true}, {p[1:], 2, false}, {p[1:], 512, false},
		{p[512:], 512, true}, {p[512:], PageBytes, false},
		{p[512:512], 512, true}, // an empty slice still has a place
		{nil, PageBytes, true},  // nil begins at 0
		{p, 0, false}, {p, -4, false},
	} {
		if got := IsAligned(c.p, c.n); got != c.want {
			t.Errorf("IsAligned(%p, %d) = %v", c.p, c.n, got)
		}
	}
}

// TestAllocOnNode: a node is a wish; one that is not there costs nothing.
func TestAllocOnNode(t *testing.T) {
	for _, node := range []int{-1, 0, 1, 63, 64, 1000} {
		b, err := AllocOnNode(3<<20, node)
		if err != nil {
			t.Fatalf("node %d: %v", node, err)
		}
		p := b.Bytes()
		for i := range p {
			if p[i] != 0 {
				t.Fatalf("node %d: byte %d is %d", node, i, p[i])
			}
		}
		p[len(p)-1] = 1
		b.Free()
	}
	if _, err := AllocOnNode(0, 0); !errors.Is(err, ErrInvalidSize) {
		t.Errorf("no bytes: %v", err)
	}
}
