package layout

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

// flips changes one field each; the key is the name that Diff must give.
var flips = map[string]func(l *Layout){
	"model":                   func(l *Layout) { l.Model += "x" },
	"weights_digest":          func(l *Layout) { l.WeightsDigest = None },
	"dtype":                   func(l *Layout) { l.DType = "float16" },
	"kv_layout":               func(l *Layout) { l.KVLayout = Custom("HND") },
	"tokens_per_block":        func(l *Layout) { l.TokensPerBlock *= 2 },
	"layers":                  func(l *Layout) { l.Layers++ },
	"kv_heads":                func(l *Layout) { l.KVHeads++ },
	"head_size":               func(l *Layout) { l.HeadSize++ },
	"planes":                  func(l *Layout) { slices.Reverse(l.Planes) },
	"planes.v":                func(l *Layout) { l.Planes[1].SizeBytes = 0 },
	"planes.z":                func(l *Layout) { l.Planes = append(l.Planes, Plane{Name: "z"}) },
	"planes.v_scale":          func(l *Layout) { l.Planes = l.Planes[:3] },
	"tp":                      func(l *Layout) { l.TP.Rank++ },
	"pp":                      func(l *Layout) { l.PP.Size++ },
	"cp":                      func(l *Layout) { l.CP = Parallel{Agnostic: true} },
	"rope":                    func(l *Layout) { l.RoPE = None },
	"attention":               func(l *Layout) { l.Attention = "swa:4096" },
	"adapter_digest":          func(l *Layout) { l.AdapterDigest = "" },
	"quantisation.scheme":     func(l *Layout) { l.Quantisation.Scheme = "int8" },
	"quantisation.scale_mode": func(l *Layout) { l.Quantisation.ScaleMode = "per-tensor" },
	"hybrid_kv_manager":       func(l *Layout) { l.HybridKVManager = Off },
	"engine":                  func(l *Layout) { l.EngineName = "sglang" },
	"layout_version":          func(l *Layout) { l.LayoutVersion = "2" },
	"hash.algorithm":          func(l *Layout) { l.Hash.Algorithm = "xxhash" },
	"hash.width_bytes":        func(l *Layout) { l.Hash.WidthBytes = 16 },
	"hash.root":               func(l *Layout) { l.Hash.Root = "00" },
	"extra.block_pool":        func(l *Layout) { l.Extra["block_pool"] = "1" },
	"extra.new":               func(l *Layout) { l.Extra["new"] = "" },
}

func TestEachFieldCounts(t *testing.T) {
	base := quantised()
	prints := map[[16]byte]string{base.Fingerprint(): "base"}
	for name, flip := range flips {
		l := base.Clone()
		flip(&l)
		if err := l.Validate(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		fp := l.Fingerprint()
		if other, ok := prints[fp]; ok {
			t.Errorf("%s: fingerprint equals that of %s", name, other)
		}
		prints[fp] = name
		ds := Diff(base, l)
		if len(ds) != 1 || ds[0].Field != name || ds[0].A == ds[0].B {
			t.Errorf("%s: Diff = %v", name, ds)
		}
		if back := Diff(l, base); len(back) != 1 || back[0] != (Difference{name, ds[0].B, ds[0].A}) {
			t.Errorf("%s: Diff the other way = %v", name, back)
		}
	}
	if !cmp.Equal(base, quantised()) {
		t.Error("Clone shares memory with its source")
	}
}

// Every field of the struct is in the table, in Diff and in flips: a field
// added to Layout and forgotten elsewhere fails here.
func TestTableIsComplete(t *testing.T) {
	var leaves []string
	var walk func(prefix string, typ reflect.Type)
	walk = func(prefix string, typ reflect.Type) {
		for i := range typ.NumField() {
			f := typ.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.Type.Kind() == reflect.Struct && f.Type != reflect.TypeFor[Parallel]() {
				walk(prefix+name+".", f.Type)
				continue
			}
			leaves = append(leaves, prefix+name)
		}
	}
	walk("", reflect.TypeFor[Layout]())
	var table []string
	for i, f := range fields {
		table = append(table, f.name)
		if int(f.tag) != i+1 {
			t.Errorf("%s: tag %d at place %d", f.name, f.tag, i)
		}
		if _, ok := flips[f.name]; !ok && f.name != "extra" {
			t.Errorf("%s: no flip", f.name)
		}
	}
	if diff := cmp.Diff(leaves, table); diff != "" {
		t.Errorf("fields of Layout (-) and of the table (+):\n%s", diff)
	}
}

func TestMissingFields(t *testing.T) {
	var all *MissingError
	if err := (Layout{}).Validate(); !errors.As(err, &all) || !errors.Is(err, ErrMissingField) {
		t.Fatalf("empty layout: %v", err)
	}
	var want []string
	for i := range fields {
		f := &fields[i]
		if f.optional {
			continue
		}
		want = append(want, f.name)
		// The same field of an empty layout in place of this one.
		l, empty := quantised(), Layout{}
		if err := f.get(&l, f.put(nil, &empty)); err != nil {
			t.Fatal(err)
		}
		if f.name == "planes" {
			l.Planes = nil
		}
		var missing *MissingError
		if err := l.Validate(); !errors.As(err, &missing) || !slices.Equal(missing.Fields, []string{f.name}) {
			t.Errorf("without %s: %v", f.name, err)
		}
		if _, err := Decode(l.Encode()); !errors.Is(err, ErrMissingField) || !errors.Is(err, ErrEncoding) {
			t.Errorf("Decode without %s: %v", f.name, err)
		}
	}
	if !slices.Equal(all.Fields, want) {
		t.Errorf("empty layout misses %v, want %v", all.Fields, want)
	}
	l := quantised()
	l.Quantisation.ScaleMode = ""
	if err := l.Validate(); !errors.Is(err, ErrMissingField) {
		t.Errorf("scheme without scale mode: %v", err)
	}
}

func TestInvalidFields(t *testing.T) {
	long := strings.Repeat("x", MaxStringBytes+1)
	manyPlanes := make([]Plane, MaxPlanes+1)
	for i := range manyPlanes {
		manyPlanes[i].Name = fmt.Sprint("p", i)
	}
	manyExtra := map[string]string{}
	for i := range MaxExtra + 1 {
		manyExtra[fmt.Sprint("e", i)] = ""
	}
	for _, c := range []struct {
		field string
		set   func(l *Layout)
	}{
		{"model", func(l *Layout) { l.Model = long }},
		{"model", func(l *Layout) { l.Model = "a\xff" }},
		{"dtype", func(l *Layout) { l.DType = "a\nb" }},
		{"kv_layout", func(l *Layout) { l.KVLayout = "nhd" }},
		{"kv_layout", func(l *Layout) { l.KVLayout = Custom("") }},
		{"kv_layout", func(l *Layout) { l.KVLayout = Custom("a b") }},
		{"planes", func(l *Layout) { l.Planes = manyPlanes }},
		{"planes", func(l *Layout) { l.Planes[0].Name = "" }},
		{"planes", func(l *Layout) { l.Planes[0].Name = "k/v" }},
		{"planes", func(l *Layout) { l.Planes[0].Name = strings.Repeat("k", MaxNameBytes+1) }},
		{"planes", func(l *Layout) { l.Planes[0].Name = "v" }},
		{"planes", func(l *Layout) { l.Planes[0].SizeBytes = -1 }},
		{"planes", func(l *Layout) { l.Planes[0].SizeBytes = MaxBlockBytes + 1 }},
		{"planes", func(l *Layout) { l.Planes[0].SizeBytes = MaxBlockBytes }},
		{"tp", func(l *Layout) { l.TP = Parallel{Size: 2, Rank: 2} }},
		{"pp", func(l *Layout) { l.PP = Parallel{Size: 1, Agnostic: true} }},
		{"cp", func(l *Layout) { l.CP = Parallel{Rank: 1} }},
		{"adapter_digest", func(l *Layout) { l.AdapterDigest = None }},
		{"quantisation.scheme", func(l *Layout) { l.Quantisation.Scheme = None }},
		{"quantisation.scale_mode", func(l *Layout) { l.Quantisation.Scheme = "" }},
		{"hybrid_kv_manager", func(l *Layout) { l.HybridKVManager = "yes" }},
		{"hash.width_bytes", func(l *Layout) { l.Hash.WidthBytes = 15 }},
		{"hash.width_bytes", func(l *Layout) { l.Hash.WidthBytes = 65 }},
		{"hash.root", func(l *Layout) { l.Hash.Root = "AB" }},
		{"hash.root", func(l *Layout) { l.Hash.Root = "abc" }},
		{"hash.root", func(l *Layout) { l.Hash.Root = strings.Repeat("ab", MaxHashBytes+1) }},
		{"extra", func(l *Layout) { l.Extra = manyExtra }},
		{"extra", func(l *Layout) { l.Extra["a b"] = "" }},
		{"extra", func(l *Layout) { l.Extra["a"] = long }},
	} {
		l := quantised()
		c.set(&l)
		var invalid *InvalidError
		err := l.Validate()
		if !errors.As(err, &invalid) || !errors.Is(err, ErrInvalid) ||
			len(invalid.Problems) != 1 || invalid.Problems[0].Field != c.field {
			t.Errorf("%s: %v", c.field, err)
		}
		if _, err := Decode(l.Encode()); err == nil {
			t.Errorf("%s: Decode takes what Validate refuses", c.field)
		}
	}
}

func TestBoundariesAreNotLost(t *testing.T) {
	a, b := llama(), llama()
	a.Model, a.WeightsDigest = "ab", "c"
	b.Model, b.WeightsDigest = "a", "bc"
	if a.Fingerprint() == b.Fingerprint() {
		t.Error(`("ab","c") and ("a","bc") share a fingerprint`)
	}
	a, b = llama(), llama()
	a.Extra = map[string]string{"a": "bc"}
	b.Extra = map[string]string{"ab": "c"}
	if a.Fingerprint() == b.Fingerprint() {
		t.Error("extra: ab=c and a=bc share a fingerprint")
	}
}

func TestNear(t *testing.T) {
	a, b := llama(), llama()
	b.Hash.Root, b.DType = "00", "float16"
	if !Near(a, b) || !RootHashDiffers(a, b) {
		t.Error("same model with another root: want near, and the root to differ")
	}
	b.Hash.Root = a.Hash.Root
	if RootHashDiffers(a, b) {
		t.Error("equal roots differ")
	}
	if b = latent(); Near(a, b) || RootHashDiffers(a, b) {
		t.Error("another model is near")
	}
}

func TestCheckPlanes(t *testing.T) {
	l := llama()
	l.Planes = []Plane{{"k", 100}, {"s", 0}}
	for _, c := range []struct {
		got []Plane
		ok  bool
	}{
		{[]Plane{{"k", 100}, {"s", 1}}, true},
		{[]Plane{{"k", 100}, {"s", MaxBlockBytes - 100}}, true},
		{[]Plane{{"k", 100}, {"s", MaxBlockBytes - 99}}, false},
		{[]Plane{{"k", 100}, {"s", MaxBlockBytes + 1}}, false},
		{[]Plane{{"k", 100}, {"s", 0}}, false},
		{[]Plane{{"k", 99}, {"s", 1}}, false},
		{[]Plane{{"s", 1}, {"k", 100}}, false},
		{[]Plane{{"k", 100}}, false},
		{[]Plane{{"k", 100}, {"s", 1}, {"t", 1}}, false},
		{nil, false},
	} {
		if err := l.CheckPlanes(c.got); (err == nil) != c.ok || (err != nil && !errors.Is(err, ErrPlanes)) {
			t.Errorf("%v: %v, want ok %v", c.got, err, c.ok)
		}
	}
}

func TestOpaque(t *testing.T) {
	l := Opaque("keys")
	if err := l.Validate(); err != nil {
		t.Error(err)
	}
	if _, fixed := l.SizeBytes(); fixed {
		t.Error("the plane of an opaque layout has a fixed size")
	}
	if n, fixed := llama().SizeBytes(); n != 2<<20 || !fixed {
		t.Errorf("llama: %d bytes, fixed %v", n, fixed)
	}
}

func TestInjective(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := genLayout().Draw(t, "a"), genLayout().Draw(t, "b")
		if rapid.Bool().Draw(t, "mostly equal") {
			keep := b
			b = a.Clone()
			b.AdapterDigest, b.Extra, b.TP = keep.AdapterDigest, keep.Extra, keep.TP
		}
		same := cmp.Equal(a, b, cmpopts.EquateEmpty())
		if got := string(a.Encode()) == string(b.Encode()); got != same {
			t.Fatalf("layouts equal %v, encodings equal %v", same, got)
		}
		if got := a.Fingerprint() == b.Fingerprint(); got != same {
			t.Fatalf("layouts equal %v, fingerprints equal %v", same, got)
		}
		if got := len(Diff(a, b)) == 0; got != same {
			t.Fatalf("layouts equal %v, differences %v", same, Diff(a, b))
		}
	})
}
