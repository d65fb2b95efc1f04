package layout

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

// field is one field of a layout. The table below is the only place that
// lists them: Validate, Encode, Decode and Diff all walk it, so that a field
// cannot be in one and missing from another.
type field struct {
	tag      uint16
	name     string
	optional bool
	zero     func(l *Layout) bool   // left out
	check    func(l *Layout) string // what is wrong with a value that is there
	show     func(l *Layout) string // for Diff
	put      func(dst []byte, l *Layout) []byte
	get      func(l *Layout, p []byte) error
	diff     func(a, b *Layout) []Difference // nil: compare what show says
}

// Tags are part of the format: never reuse or renumber one. A field added
// later must be optional, so that encodings without it keep their fingerprint.
var fields = []field{
	text(1, "model", func(l *Layout) *string { return &l.Model }),
	text(2, "weights_digest", func(l *Layout) *string { return &l.WeightsDigest }),
	text(3, "dtype", func(l *Layout) *string { return &l.DType }),
	text(4, "kv_layout", func(l *Layout) *KVLayout { return &l.KVLayout }).checked(checkKVLayout),
	number(5, "tokens_per_block", func(l *Layout) *uint32 { return &l.TokensPerBlock }),
	number(6, "layers", func(l *Layout) *uint32 { return &l.Layers }),
	number(7, "kv_heads", func(l *Layout) *uint32 { return &l.KVHeads }),
	number(8, "head_size", func(l *Layout) *uint32 { return &l.HeadSize }),
	planesField(9),
	parallel(10, "tp", func(l *Layout) *Parallel { return &l.TP }),
	parallel(11, "pp", func(l *Layout) *Parallel { return &l.PP }),
	parallel(12, "cp", func(l *Layout) *Parallel { return &l.CP }),
	text(13, "rope", func(l *Layout) *string { return &l.RoPE }),
	text(14, "attention", func(l *Layout) *string { return &l.Attention }),
	text(15, "adapter_digest", func(l *Layout) *string { return &l.AdapterDigest }).opt(),
	text(16, "quantisation.scheme", func(l *Layout) *string { return &l.Quantisation.Scheme }).opt(),
	text(17, "quantisation.scale_mode", func(l *Layout) *string { return &l.Quantisation.ScaleMode }).opt().
		checked(checkScaleMode),
	text(18, "hybrid_kv_manager", func(l *Layout) *Switch { return &l.HybridKVManager }).checked(checkSwitch),
	text(19, "engine", func(l *Layout) *string { return &l.EngineName }),
	text(20, "layout_version", func(l *Layout) *string { return &l.LayoutVersion }),
	text(21, "hash.algorithm", func(l *Layout) *string { return &l.Hash.Algorithm }),
	number(22, "hash.width_bytes", func(l *Layout) *uint32 { return &l.Hash.WidthBytes }).checked(checkWidth),
	text(23, "hash.root", func(l *Layout) *string { return &l.Hash.Root }).checked(checkRoot),
	extraField(24),
}

// opt makes the field optional: its zero value means none, is not encoded,
// and is the only spelling of none.
func (f field) opt() field {
	f.optional = true
	return f.checked(func(l *Layout) string {
		if f.show(l) == strconv.Quote(None) {
			return `"none" is said by leaving it empty`
		}
		return ""
	})
}

// checked adds a check to those of the field's kind.
func (f field) checked(more func(l *Layout) string) field {
	first := f.check
	f.check = func(l *Layout) string {
		if problem := first(l); problem != "" {
			return problem
		}
		return more(l)
	}
	return f
}

func text[S ~string](tag uint16, name string, at func(*Layout) *S) field {
	return field{
		tag: tag, name: name,
		zero:  func(l *Layout) bool { return *at(l) == "" },
		check: func(l *Layout) string { return checkText(string(*at(l))) },
		show: func(l *Layout) string {
			if *at(l) == "" {
				return None
			}
			return strconv.Quote(string(*at(l)))
		},
		put: func(dst []byte, l *Layout) []byte { return append(dst, *at(l)...) },
		get: func(l *Layout, p []byte) error { *at(l) = S(p); return nil },
	}
}

func number(tag uint16, name string, at func(*Layout) *uint32) field {
	return field{
		tag: tag, name: name,
		zero:  func(l *Layout) bool { return *at(l) == 0 },
		check: func(*Layout) string { return "" },
		show:  func(l *Layout) string { return strconv.FormatUint(uint64(*at(l)), 10) },
		put:   func(dst []byte, l *Layout) []byte { return binary.LittleEndian.AppendUint32(dst, *at(l)) },
		get: func(l *Layout, p []byte) error {
			if len(p) != 4 {
				return fmt.Errorf("%d bytes in place of 4", len(p))
			}
			*at(l) = binary.LittleEndian.Uint32(p)
			return nil
		},
	}
}

const parallelBytes = 9 // agnostic u8, size u32, rank u32

func parallel(tag uint16, name string, at func(*Layout) *Parallel) field {
	return field{
		tag: tag, name: name,
		zero:  func(l *Layout) bool { return *at(l) == Parallel{} },
		check: func(l *Layout) string { return checkParallel(*at(l)) },
		show:  func(l *Layout) string { return at(l).String() },
		put: func(dst []byte, l *Layout) []byte {
			p := *at(l)
			agnostic := byte(0)
			if p.Agnostic {
				agnostic = 1
			}
			dst = append(dst, agnostic)
			dst = binary.LittleEndian.AppendUint32(dst, p.Size)
			return binary.LittleEndian.AppendUint32(dst, p.Rank)
		},
		get: func(l *Layout, p []byte) error {
			if len(p) != parallelBytes || p[0] > 1 {
				return fmt.Errorf("not a parallel shard")
			}
			*at(l) = Parallel{
				Agnostic: p[0] == 1,
				Size:     binary.LittleEndian.Uint32(p[1:]),
				Rank:     binary.LittleEndian.Uint32(p[5:]),
			}
			return nil
		},
	}
}

// String reads "rank 1 of 8", "agnostic" or "not stated".
func (p Parallel) String() string {
	switch {
	case p == Parallel{}:
		return "not stated"
	case p == Parallel{Agnostic: true}:
		return "agnostic"
	case p.Agnostic:
		return fmt.Sprintf("agnostic and rank %d of %d", p.Rank, p.Size)
	}
	return fmt.Sprintf("rank %d of %d", p.Rank, p.Size)
}
