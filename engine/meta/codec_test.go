package meta

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/sums"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func sampleStore() storeState {
	p := testParams()
	return storeState{secret: p.Secret, info: StoreInfo{
		Version: FormatVersion, Generation: 3, UUID: p.UUID, SetUUID: [16]byte{1, 2, 3}, Member: 1, Members: 4,
		SegmentBytes: p.SegmentBytes, AlignmentBytes: p.AlignmentBytes, PebbleFormat: p.PebbleFormat, CreatedUnix: p.CreatedUnix,
	}}
}

func sampleNames() *namesState {
	s := &namesState{
		envelope:     envelope{version: FormatVersion, generation: 9, uuid: testParams().UUID},
		segmentBound: 128, sequenceBound: 3 << 20, nextNumber: 6,
	}
	for i, name := range []string{"first", "second"} {
		l := layout.Opaque(name)
		s.list = append(s.list, Namespace{
			Number: uint32(2 + 3*i), Tenant: []string{"", "tenant-β"}[i], Layout: l, Fingerprint: l.Fingerprint(),
			Epoch: uint64(1 + i), Floor: uint64(1000 * i), CreatedUnix: 1_700_000_000,
		})
	}
	return s
}

func sampleKey() sums.Key { return sums.NewKey(testParams().Secret) }

func TestGolden(t *testing.T) {
	owner, err := encodeOwner(Owner{Host: "node7", PID: 4242, PIDNamespace: 4026531836, StartTicks: 123456,
		BootID: "4f3c2d1e-0000-4000-8000-00000000beef", Program: "sealstone"})
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string][]byte{
		"store":      encodeStore(sampleStore()),
		"namespaces": encodeNames(sampleNames(), sampleKey()),
		"lock":       owner,
	} {
		path := filepath.Join("testdata", name+".golden")
		got := hex.Dump(p)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: the format changed (-want +got):\n%s", path, diff)
		}
	}
}

func decodeSample(p []byte) (*namesState, error) {
	return decodeNames(NamespacesFile, p, sampleKey(), testParams().UUID, false)
}

func TestRoundTrip(t *testing.T) {
	s := sampleStore()
	got, err := decodeStore(StoreFile, encodeStore(s), false)
	if err != nil || got != s {
		t.Errorf("store: %+v, %v", got, err)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := &namesState{
			envelope:      envelope{version: FormatVersion, generation: rapid.Uint64().Draw(t, "generation"), uuid: testParams().UUID},
			segmentBound:  rapid.Uint64Range(1, maxBound).Draw(t, "segments"),
			sequenceBound: rapid.Uint64Range(1, maxBound).Draw(t, "sequences"),
			nextNumber:    1,
		}
		for i := range rapid.IntRange(0, 5).Draw(t, "namespaces") {
			l := layout.Opaque(fmt.Sprint(i))
			s.nextNumber += rapid.Uint32Range(0, 3).Draw(t, "gap")
			s.list = append(s.list, Namespace{
				Number: s.nextNumber, Tenant: rapid.StringMatching(`[a-zäß]{0,9}`).Draw(t, "tenant"),
				Layout: l, Fingerprint: l.Fingerprint(),
				Epoch:       rapid.Uint64Min(1).Draw(t, "epoch"),
				Floor:       rapid.Uint64Range(0, s.sequenceBound).Draw(t, "floor"),
				CreatedUnix: rapid.Int64().Draw(t, "created"),
			})
			s.nextNumber++
		}
		got, err := decodeSample(encodeNames(s, sampleKey()))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(s, got, cmp.AllowUnexported(namesState{}, envelope{})); diff != "" {
			t.Fatal(diff)
		}
	})
}

// reseal gives an edited file a right sum: what is refused then is refused for
// what it says.
func reseal(p []byte, domain sums.Domain, k sums.Key) []byte {
	body := p[:len(p)-sumBytes]
	binary.LittleEndian.PutUint64(p[len(body):], k.Sum(domain, body))
	return p
}

func TestStoreRefuses(t *testing.T) {
	for name, edit := range map[string]func(p []byte){
		"magic":               func(p []byte) { p[0] ^= 1 },
		"reserved bytes":      func(p []byte) { p[10] = 1 },
		"reserved at the end": func(p []byte) { p[503] = 1 },
		"uuid zero":           func(p []byte) { clear(p[32:48]) },
		"no members":          func(p []byte) { p[100] = 0 },
		"segment bytes":       func(p []byte) { p[104] = 1 },
		"alignment":           func(p []byte) { p[113] = 0x18 },
	} {
		p := encodeStore(sampleStore())
		edit(p)
		_, err := decodeStore(StoreFile, reseal(p, sums.DomainStore, sampleKey()), false)
		if err == nil || errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, n := range []int{0, 47, storeBytes - 1} {
		if _, err := decodeStore(StoreFile, encodeStore(sampleStore())[:n], false); err == nil {
			t.Errorf("%d bytes decode", n)
		}
	}
}

func TestNamesRefuse(t *testing.T) {
	const first = namesHeaderBytes
	for name, edit := range map[string]func(p []byte) []byte{
		"magic":             func(p []byte) []byte { p[0] ^= 1; return p },
		"reserved bytes":    func(p []byte) []byte { p[11] = 1; return p },
		"uuid":              func(p []byte) []byte { p[32] ^= 1; return p },
		"segment bound 0":   func(p []byte) []byte { clear(p[48:56]); return p },
		"sequence bound":    func(p []byte) []byte { p[63] = 0xff; return p },
		"floor over bound":  func(p []byte) []byte { clear(p[56:64]); p[56] = 1; return p },
		"next number":       func(p []byte) []byte { p[64] = 5; return p },
		"count too small":   func(p []byte) []byte { p[68] = 1; return p },
		"count too large":   func(p []byte) []byte { p[68] = 3; return p },
		"count huge":        func(p []byte) []byte { p[71] = 0xff; return p },
		"file bytes":        func(p []byte) []byte { p[72]++; return p },
		"number order":      func(p []byte) []byte { p[first] = 5; return p },
		"tenant bytes":      func(p []byte) []byte { p[first+7] = 0xff; return p },
		"layout bytes":      func(p []byte) []byte { p[first+11] = 0xff; return p },
		"layout":            func(p []byte) []byte { p[first+recordBytes] ^= 1; return p },
		"epoch 0":           func(p []byte) []byte { clear(p[first+12 : first+20]); return p },
		"bytes at the end":  func(p []byte) []byte { p[72]++; return append(p, 0) },
		"shorter by a byte": func(p []byte) []byte { return p[:len(p)-1] },
	} {
		p := edit(encodeNames(sampleNames(), sampleKey()))
		_, err := decodeSample(reseal(p, sums.DomainNamespaces, sampleKey()))
		if err == nil || errors.Is(err, ErrUnsupported) {
			t.Errorf("%s: %v", name, err)
		}
	}
	twice := sampleNames()
	twice.list[1].Tenant, twice.list[1].Layout = twice.list[0].Tenant, twice.list[0].Layout
	if _, err := decodeSample(encodeNames(twice, sampleKey())); err == nil {
		t.Error("the same tenant and layout twice: accepted")
	}
	if _, err := decodeNames(NamespacesFile, encodeNames(sampleNames(), sampleKey()), sums.NewKey([32]byte{1}), testParams().UUID, false); err == nil {
		t.Error("accepted with the key of another store")
	}
}

// What a later program wrote is told from damage: the sum holds.
func TestUnsupported(t *testing.T) {
	for _, c := range []struct {
		name     string
		offset   int
		readOnly bool
		want     error
	}{
		{"version", 8, true, ErrUnsupported},
		{"incompatible feature", 12, true, ErrUnsupported},
		{"read-only-compatible feature", 16, false, ErrUnsupported},
		{"read-only-compatible feature", 16, true, nil},
		{"compatible feature", 20, false, nil},
	} {
		p := encodeStore(sampleStore())
		p[c.offset] |= 4
		p = reseal(p, sums.DomainStore, sampleKey())
		if _, err := decodeStore(StoreFile, p, c.readOnly); !errors.Is(err, c.want) {
			t.Errorf("store, %s, read-only %v: %v", c.name, c.readOnly, err)
		}
		p = encodeNames(sampleNames(), sampleKey())
		p[c.offset] |= 4
		p = reseal(p, sums.DomainNamespaces, sampleKey())
		if _, err := decodeNames(NamespacesFile, p, sampleKey(), testParams().UUID, c.readOnly); !errors.Is(err, c.want) {
			t.Errorf("namespaces, %s, read-only %v: %v", c.name, c.readOnly, err)
		}
	}
	// a layout with a field of a later version
	p := encodeNames(sampleNames(), sampleKey())
	p[namesHeaderBytes+recordBytes+len("SLLAYOU1")-1]++
	if _, err := decodeSample(reseal(p, sums.DomainNamespaces, sampleKey())); !errors.Is(err, ErrUnsupported) || !errors.Is(err, layout.ErrUnsupported) {
		t.Errorf("layout of a later version: %v", err)
	}
}

func FuzzDecodeStore(f *testing.F) {
	f.Add(encodeStore(sampleStore()), true)
	f.Add(encodeStore(sampleStore())[:100], false)
	f.Fuzz(func(t *testing.T, p []byte, fixSum bool) {
		if fixSum && len(p) == storeBytes {
			p = reseal(bytes.Clone(p), sums.DomainStore, sums.NewKey([32]byte(p[48:80])))
		}
		s, err := decodeStore(StoreFile, p, false)
		if err == nil && s.info.Features == (Features{}) && !bytes.Equal(encodeStore(s), p) {
			t.Fatal("two encodings of one state")
		}
	})
}

func FuzzDecodeNamespaces(f *testing.F) {
	f.Add(encodeNames(sampleNames(), sampleKey()), true)
	f.Add(encodeNames(&namesState{envelope: sampleNames().envelope, segmentBound: 1, sequenceBound: 1, nextNumber: 1}, sampleKey()), true)
	f.Add([]byte("SLNAMES1"), false)
	f.Fuzz(func(t *testing.T, p []byte, fixSum bool) {
		if fixSum && len(p) >= sumBytes {
			p = reseal(bytes.Clone(p), sums.DomainNamespaces, sampleKey())
		}
		s, err := decodeSample(p)
		if err == nil && s.features == (Features{}) && !bytes.Equal(encodeNames(s, sampleKey()), p) {
			t.Fatal("two encodings of one state")
		}
	})
}

func FuzzDecodeOwner(f *testing.F) {
	p, err := encodeOwner(CurrentOwner())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(p)
	f.Add([]byte(`{"pid":-1}`))
	f.Fuzz(func(t *testing.T, p []byte) {
		if o, ok := decodeOwner(p); ok && o.PID <= 0 {
			t.Fatalf("owner %+v", o)
		}
	})
}
