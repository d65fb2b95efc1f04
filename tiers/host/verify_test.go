package host

import (
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// TestVerifyFindsEachFlip: one bit in any byte of any plane, in any sum or in
// the content id is found, and by a range only if it lies in a chunk of it.
func TestVerifyFindsEachFlip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := New(16 * mib)
		defer c.Close()
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 200_000), 1, 4).Draw(t, "planes")
		b, err := c.New(sizes)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Release()
		fillPlanes(b, 1, 2)
		if err := b.Verify(); err != nil {
			t.Fatal(err)
		}
		plane := rapid.IntRange(0, len(sizes)-1).Draw(t, "plane")
		p := b.Planes()[plane]
		at := rapid.IntRange(0, len(p)-1).Draw(t, "byte")
		p[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if err := b.Verify(); !errors.Is(err, ErrCorrupt) {
			t.Fatalf("a flip in byte %d of plane %d: %v", at, plane, err)
		}
		off := rapid.Int64Range(0, int64(len(p))-1).Draw(t, "from")
		n := rapid.Int64Range(1, int64(len(p))-off).Draw(t, "bytes")
		_, err = b.VerifyRange(plane, off, n)
		inside := int64(at)/65536 >= off/65536 && int64(at)/65536 <= (off+n-1)/65536
		if inside != errors.Is(err, ErrCorrupt) {
			t.Fatalf("flip at %d, range %d+%d: %v", at, off, n, err)
		}
	})
}

func TestVerifySums(t *testing.T) {
	c := newCache(t, 16*mib)
	b, err := c.New([]int64{100_000, 7})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Release()
	fillPlanes(b, 1, 2)
	for i := range b.sums {
		b.sums[i] ^= 1 << 40
		if err := b.VerifySums(); !errors.Is(err, ErrCorrupt) {
			t.Errorf("sum %d changed: %v", i, err)
		}
		b.sums[i] ^= 1 << 40
	}
	b.content[3] ^= 1
	if err := b.VerifySums(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("content id changed: %v", err)
	}
	b.content[3] ^= 1
	b.sums = b.sums[:1]
	if err := b.Verify(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("sums are missing: %v", err)
	}
	for _, r := range [][2]int64{{-1, 5}, {0, 100_001}, {100_000, 1}, {1 << 62, 1 << 62}, {0, -1}} {
		if _, err := b.VerifyRange(0, r[0], r[1]); err == nil || errors.Is(err, ErrCorrupt) {
			t.Errorf("range %v: %v", r, err)
		}
	}
}

// TestCorruptIsRemoved: counted apart, gone, and readable to nobody else.
func TestCorruptIsRemoved(t *testing.T) {
	c := newCache(t, 16*mib)
	v := mustAdd(t, c, 1, 1, 70_000)
	b := mustHold(t, c, 1, v)
	b.Planes()[0][5] ^= 1
	if err := b.Verify(); !errors.Is(err, ErrCorrupt) {
		t.Fatal(err)
	}
	c.Corrupt(b)
	c.Corrupt(b) // two readers may find it
	if c.Get(keyOf(1), v) != nil {
		t.Error("still served")
	}
	b.Release()
	if s := c.Stats(); s.Corrupt != 2 || s.Blocks != 0 || s.Bytes != 0 {
		t.Errorf("stats %+v", s)
	}
}
