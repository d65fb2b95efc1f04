package layout

import "fmt"

// Difference is one field in which two layouts differ, with both values in
// readable form.
type Difference struct {
	Field string `json:"field"` // as in JSON: "tp", "hash.root", "planes.k", "extra.block_pool"
	A     string `json:"a"`
	B     string `json:"b"`
}

func (d Difference) String() string { return fmt.Sprintf("%s: %s / %s", d.Field, d.A, d.B) }

const absent = "absent"

// Diff lists the fields in which a and b differ, in the order of the encoding.
// It is empty exactly if their fingerprints are equal (both being valid).
func Diff(a, b Layout) []Difference {
	var ds []Difference
	for i := range fields {
		f := &fields[i]
		if f.diff != nil {
			ds = append(ds, f.diff(&a, &b)...)
		} else if va, vb := f.show(&a), f.show(&b); va != vb {
			ds = append(ds, Difference{Field: f.name, A: va, B: vb})
		}
	}
	return ds
}

// diffNamed compares two lists of named values by name.
func diffNamed[T any](prefix string, as, bs []T, show func(T) (name, value string)) []Difference {
	var ds []Difference
	inB := map[string]string{}
	for _, b := range bs {
		name, value := show(b)
		inB[name] = value
	}
	inA := map[string]bool{}
	for _, a := range as {
		name, va := show(a)
		inA[name] = true
		if vb, ok := inB[name]; !ok {
			ds = append(ds, Difference{Field: prefix + name, A: va, B: absent})
		} else if va != vb {
			ds = append(ds, Difference{Field: prefix + name, A: va, B: vb})
		}
	}
	for _, b := range bs {
		if name, vb := show(b); !inA[name] {
			ds = append(ds, Difference{Field: prefix + name, A: absent, B: vb})
		}
	}
	return ds
}

// Near reports whether a and b are about the same model: a caller who opens
// the one where the other is stored should be told their differences. It says
// nothing about whether blocks may be shared; only equal fingerprints do.
func Near(a, b Layout) bool { return a.Model == b.Model }

// RootHashDiffers reports whether a and b are near and start their hash chains
// from different roots. It is the sign of an engine without a fixed hash seed:
// what it puts now cannot be found after its next restart.
func RootHashDiffers(a, b Layout) bool { return Near(a, b) && a.Hash.Root != b.Hash.Root }
