package demo

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

// TestSurgery holds that each edit does what its scenario says: a damage that
// does no damage would prove nothing.
func TestSurgery(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	if err := fill(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	p, err := openPatient(dir)
	if err != nil {
		t.Fatal(err)
	}
	at := map[int]located{}
	for _, i := range []int{3, 4, 5, 7} {
		if at[i], err = p.find(labHash(i)); err != nil {
			t.Fatal(err)
		}
		if off := labBytes.Check(payload(t, at[i]), labRef(i)); off >= 0 {
			t.Fatalf("the payload of block %d differs at %d before any damage", i, off)
		}
	}

	t.Run("flip", func(t *testing.T) {
		if err := p.flipBit(at[5], 70000); err != nil {
			t.Fatal(err)
		}
		if off, n := labBytes.Compare(payload(t, at[5]), labRef(5)); off != 70000 || n != 1 {
			t.Errorf("%d bytes differ, the first at %d", n, off)
		}
	})
	t.Run("swap payloads, then all", func(t *testing.T) {
		if err := p.swapPayloads(at[3], at[7]); err != nil {
			t.Fatal(err)
		}
		if labBytes.Check(payload(t, at[3]), labRef(7)) >= 0 || labBytes.Check(payload(t, at[7]), labRef(3)) >= 0 {
			t.Error("the payloads are not exchanged")
		}
		if e := header(t, p, at[3]); !bytes.Equal(e.Hash, labHash(3)) {
			t.Error("the headers moved")
		}
		if err := p.swap(at[3], at[7]); err != nil {
			t.Fatal(err)
		}
		if labBytes.Check(payload(t, at[3]), labRef(3)) >= 0 || !bytes.Equal(header(t, p, at[3]).Hash, labHash(7)) {
			t.Error("the extents are not exchanged")
		}
	})
	t.Run("forge", func(t *testing.T) {
		if err := p.forge(at[4], func(b []byte) { labBytes.Fill(b, labRef(400)) }); err != nil {
			t.Fatal(err)
		}
		got := payload(t, at[4])
		if labBytes.Check(got, labRef(400)) >= 0 {
			t.Error("the payload is not the forged one")
		}
		// The header verifies by itself, is the block's, and has the sums of
		// the forged bytes: only the index knows better.
		e := header(t, p, at[4])
		if !bytes.Equal(e.Hash, labHash(4)) || e.Address != at[4].extent.Address || e.ContentID == at[4].extent.ContentID {
			t.Errorf("the header is %+v", e)
		}
		for i, sum := range sums.Chunks(nil, got) {
			if e.Chunks[i].RawSum != sum {
				t.Errorf("chunk sum %d does not fit the forged bytes", i)
			}
		}
	})
	t.Run("cut", func(t *testing.T) {
		if err := p.cut(at[7]); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(at[7].path)
		if err != nil || info.Size() <= at[7].payloadAt() || info.Size() >= at[7].payloadAt()+labBlockBytes {
			t.Errorf("the segment has %d bytes, %v", info.Size(), err)
		}
	})
	if _, err := p.find(labHash(99)); !errors.Is(err, errNotFound) {
		t.Errorf("a block that is not there: %v", err)
	}
}

func payload(t *testing.T, l located) []byte {
	t.Helper()
	return read(t, l.path, l.payloadAt(), labBlockBytes)
}

func header(t *testing.T, p *patient, l located) *disk.Extent {
	t.Helper()
	e, _, err := disk.DecodeExtent(read(t, l.path, l.offset, int64(l.extent.HeaderPages)*disk.PageBytes), p.key)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func read(t *testing.T, path string, offset, n int64) []byte {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, offset); err != nil {
		t.Fatal(err)
	}
	return b
}
