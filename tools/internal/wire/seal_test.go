package wire

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/sealstone/sealstone/engine"
)

// FuzzSeal: what is read is what was written, byte for byte.
func FuzzSeal(f *testing.F) {
	s := engine.SealOf([]byte("plane"), make([]byte, 70000))
	f.Add(AppendSeal(nil, &s))
	f.Add(AppendSeal(nil, &engine.Seal{}))
	f.Add([]byte{1})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, p []byte) {
		s, err := ParseSeal(p)
		if err != nil || s == nil {
			return
		}
		if again := AppendSeal(nil, s); !bytes.Equal(again, p) {
			t.Errorf("%x is read as %+v and written as %x", p, s, again)
		}
	})
}

func TestSeal(t *testing.T) {
	s := engine.SealOf([]byte("plane"), make([]byte, 70000))
	p := AppendSeal([]byte("before"), &s)[len("before"):]
	got, err := ParseSeal(p)
	if err != nil || !reflect.DeepEqual(got, &s) || len(got.PlaneBytes) != 2 || len(got.ChunkSums) != 3 {
		t.Fatalf("%+v is read as %+v, %v", s, got, err)
	}
	if got, err := ParseSeal(nil); got != nil || err != nil {
		t.Errorf("no seal is read as %+v, %v", got, err)
	}
	for n := 1; n < len(p); n++ {
		if _, err := ParseSeal(p[:n]); err == nil {
			t.Errorf("%d of %d bytes are taken for a seal", n, len(p))
		}
	}
	head := append([]byte{sealVersion}, make([]byte, 16)...)
	negative := engine.Seal{PlaneBytes: []int64{-1}}
	for name, bad := range map[string][]byte{
		"a byte too many":               append(bytes.Clone(p), 0),
		"another version":               append([]byte{sealVersion + 1}, p[1:]...),
		"a list without its bytes":      append(bytes.Clone(head), 0xff, 0xff, 0xff, 0xff),
		"a plane of a negative length":  AppendSeal(nil, &negative),
		"a plane longer than any block": AppendSeal(nil, &engine.Seal{PlaneBytes: []int64{engine.MaxBlockBytes + 1}}),
		"more planes than a block has":  AppendSeal(nil, &engine.Seal{PlaneBytes: make([]int64, sealPlanesMax+1)}),
		"more sums than a block has":    AppendSeal(nil, &engine.Seal{ChunkSums: make([]uint64, sealChunksMax+1)}),
	} {
		if got, err := ParseSeal(bad); err == nil {
			t.Errorf("%s is read as %+v", name, got)
		}
	}
}
