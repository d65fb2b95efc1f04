package layout

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestGolden(t *testing.T) {
	for name, l := range map[string]Layout{
		"llama-3.1-8b-bf16": llama(), "llama-3.1-70b-fp8-tp8": quantised(), "deepseek-v3-mla": latent(),
	} {
		js, err := json.MarshalIndent(l, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Appendf(nil, "%s\n\nfingerprint %x\n\n%s", js, l.Fingerprint(), hex.Dump(l.Encode()))
		path := filepath.Join("testdata", name+".golden")
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s: fingerprints of stored namespaces changed (-want +got):\n%s", path, diff)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := genLayout().Draw(t, "layout")
		if err := l.Validate(); err != nil {
			t.Fatal(err)
		}
		back, err := Decode(l.Encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(l, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("binary: %s", diff)
		}
		js, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		back = Layout{}
		if err := json.Unmarshal(js, &back); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(l, back, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("JSON: %s", diff)
		}
	})
}

func TestJSONRefusesUnknownFields(t *testing.T) {
	for _, s := range []string{
		`{"modle": "x"}`, `{"hash": {"rooot": "00"}}`, `{"planes": [{"name": "k", "size": 1}]}`,
		`{"tp": {"sizes": 1}}`, `{"layers": -1}`, `{"layers": 1.5}`, `{"model": 3}`,
	} {
		var l Layout
		if err := json.Unmarshal([]byte(s), &l); err == nil {
			t.Errorf("%s: accepted", s)
		}
	}
}

// The largest valid layout fits in MaxEncodedBytes.
func TestLargest(t *testing.T) {
	l := quantised()
	long := strings.Repeat("x", MaxStringBytes)
	for _, s := range []*string{&l.Model, &l.WeightsDigest, &l.DType, &l.RoPE, &l.Attention, &l.AdapterDigest,
		&l.Quantisation.Scheme, &l.Quantisation.ScaleMode, &l.EngineName, &l.LayoutVersion, &l.Hash.Algorithm} {
		*s = long
	}
	l.Planes = make([]Plane, MaxPlanes)
	for i := range l.Planes {
		l.Planes[i] = Plane{Name: fmt.Sprintf("%0*d", MaxNameBytes, i)}
	}
	l.Extra = map[string]string{}
	for i := range MaxExtra {
		l.Extra[fmt.Sprintf("%0*d", MaxNameBytes, i)] = long
	}
	p := l.Encode()
	back, err := Decode(p)
	if err != nil {
		t.Fatalf("%d bytes: %v", len(p), err)
	}
	if !cmp.Equal(l, back) {
		t.Error("comes back different")
	}
}

func TestDecodeRefuses(t *testing.T) {
	good := quantised().Encode()
	edit := func(f func(p []byte) []byte) []byte { return f(bytes.Clone(good)) }
	// a layout with an optional field written although it says none
	spelled := llama().Encode()
	binary.LittleEndian.PutUint16(spelled[8:], binary.LittleEndian.Uint16(spelled[8:])+1)
	spelled = append(spelled, 24, 0, 4, 0, 0, 0, 0, 0, 0, 0)
	for name, c := range map[string]struct {
		p    []byte
		want error
	}{
		"empty":            {nil, ErrEncoding},
		"magic":            {edit(func(p []byte) []byte { p[0] ^= 1; return p }), ErrEncoding},
		"version":          {edit(func(p []byte) []byte { p[7]++; return p }), ErrUnsupported},
		"trailing byte":    {append(bytes.Clone(good), 0), ErrEncoding},
		"unknown tag":      {edit(func(p []byte) []byte { p[8]++; return append(p, 99, 0, 0, 0, 0, 0) }), ErrUnsupported},
		"repeated tag":     {edit(func(p []byte) []byte { p[8]++; return append(p, 24, 0, 0, 0, 0, 0) }), ErrEncoding},
		"tag 0":            {edit(func(p []byte) []byte { p[10] = 0; return p }), ErrEncoding},
		"length":           {edit(func(p []byte) []byte { p[15] = 0xff; return p }), ErrEncoding},
		"spelled-out none": {spelled, ErrEncoding},
		"too long":         {append(bytes.Clone(good), make([]byte, MaxEncodedBytes)...), ErrEncoding},
	} {
		if _, err := Decode(c.p); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	for n := range good {
		if _, err := Decode(good[:n]); err == nil {
			t.Errorf("the first %d of %d bytes decode", n, len(good))
		}
	}
	for i := range good { // a flipped byte is refused or is another layout
		p := edit(func(p []byte) []byte { p[i] ^= 1; return p })
		if l, err := Decode(p); err == nil && len(Diff(l, quantised())) == 0 {
			t.Errorf("byte %d flipped: decodes to the same layout", i)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, l := range []Layout{llama(), quantised(), latent(), Opaque("x"), {}} {
		f.Add(l.Encode())
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		l, err := Decode(p)
		if err != nil {
			return
		}
		if err := l.Validate(); err != nil {
			t.Fatalf("decoded a layout that does not validate: %v", err)
		}
		if !bytes.Equal(l.Encode(), p) {
			t.Fatal("two encodings of one layout")
		}
	})
}

func FuzzJSON(f *testing.F) {
	for _, l := range []Layout{llama(), quantised(), latent()} {
		js, err := json.Marshal(l)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(js)
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		var l, back Layout
		if json.Unmarshal(p, &l) != nil || l.Validate() != nil {
			return
		}
		js, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(js, &back); err != nil || l.Fingerprint() != back.Fingerprint() {
			t.Fatalf("valid layout does not survive JSON: %v", err)
		}
	})
}

// The table in the documentation says what the code does.
func TestDocumentedVectors(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "format", "layout.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []Layout{llama(), quantised(), latent()} {
		if fp := fmt.Sprintf("`%x`", l.Fingerprint()); !strings.Contains(string(doc), fp) {
			t.Errorf("%s: layout.md does not have %s", l.Model, fp)
		}
	}
	for _, f := range fields {
		if row := fmt.Sprintf("| %d | `%s` |", f.tag, f.name); !strings.Contains(string(doc), row) {
			t.Errorf("layout.md has no row %q", row)
		}
	}
}
