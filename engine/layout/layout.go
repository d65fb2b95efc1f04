// Package layout describes what the bytes of a KV-cache block mean.
//
// Two engines may share blocks only if everything that decides the meaning of
// the bytes is equal: model and weights, type and order of the values, planes,
// parallel shard, position encoding, quantisation, the engine's own layout
// version, the way block hashes are made. A [Layout] names all of it. Its
// canonical encoding gives a 16 byte fingerprint; when two fingerprints differ
// [Diff] says in which fields, with both values.
//
// A required field that is left out is refused rather than defaulted: a
// default that is wrong on one side is how bytes of one layout get served as
// another. Optional fields have exactly one way to say "none": the zero value.
package layout

import "maps"

// Limits of a layout. Validate refuses what is beyond them, Decode does not
// allocate for it.
const (
	MaxPlanes       = 256
	MaxNameBytes    = 64       // plane names and keys of Extra
	MaxStringBytes  = 1 << 10  // every other string
	MaxExtra        = 64       // pairs
	MaxBlockBytes   = 64 << 20 // all planes together
	MinHashBytes    = 16
	MaxHashBytes    = 64
	MaxEncodedBytes = 128 << 10
)

// None is what a required text says when the thing does not exist (a model
// without RoPE, a hash scheme without a root). Optional fields are left empty
// instead and refuse it, so that "none" has one spelling in each field.
const None = "none"

// KVLayout is the order of the dimensions of a plane: [NHD], [HND] or a name
// of the engine's own made by [Custom].
type KVLayout string

const (
	NHD KVLayout = "NHD" // tokens, heads, head size
	HND KVLayout = "HND" // heads, tokens, head size
)

const customPrefix = "custom:"

// Custom is an order known to the engine only, by a name of [A-Za-z0-9_.:-].
func Custom(name string) KVLayout { return KVLayout(customPrefix + name) }

// Switch is a setting that must be stated. Its zero value is "not stated" and
// is refused, where a bool would silently mean off.
type Switch string

// The two states of a [Switch].
const (
	On  Switch = "on"
	Off Switch = "off"
)

// Plane is a named part of a block. All planes are stored and loaded together.
type Plane struct {
	Name      string `json:"name"`
	SizeBytes int64  `json:"size_bytes,omitempty"` // 0: any size up to the block limit
}

// Parallel is the shard of one parallel dimension: rank Rank of Size, or
// Agnostic for bytes that are the same at every size and rank. The zero value
// is "not stated".
type Parallel struct {
	Size     uint32 `json:"size,omitempty"`
	Rank     uint32 `json:"rank,omitempty"`
	Agnostic bool   `json:"agnostic,omitempty"`
}

// Quantisation of the cached values. The zero value is none.
type Quantisation struct {
	Scheme    string `json:"scheme,omitempty"`     // e.g. "fp8_e4m3"
	ScaleMode string `json:"scale_mode,omitempty"` // e.g. "per-token-head"; required with a scheme
}

// HashScheme says how the engine makes block hashes.
type HashScheme struct {
	Algorithm  string `json:"algorithm,omitempty"`   // e.g. "sha256_cbor"
	WidthBytes uint32 `json:"width_bytes,omitempty"` // 16 to 64
	// Root is the parent of the first block of every sequence, lower case
	// hex, or None for a scheme that has none. Engines draw it at random
	// unless they are given a fixed seed; blocks put under another root can
	// never be found again.
	Root string `json:"root,omitempty"`
}

// Layout is the descriptor of a namespace. The comment of each field says if
// it is required or what its zero value means.
type Layout struct {
	Model           string            `json:"model,omitempty"`             // required
	WeightsDigest   string            `json:"weights_digest,omitempty"`    // required: digest or revision; None if the engine has none
	DType           string            `json:"dtype,omitempty"`             // required: type of the cached values
	KVLayout        KVLayout          `json:"kv_layout,omitempty"`         // required
	TokensPerBlock  uint32            `json:"tokens_per_block,omitempty"`  // required
	Layers          uint32            `json:"layers,omitempty"`            // required: layers in a block
	KVHeads         uint32            `json:"kv_heads,omitempty"`          // required: heads in a block
	HeadSize        uint32            `json:"head_size,omitempty"`         // required: values per head
	Planes          []Plane           `json:"planes,omitempty"`            // required: at least one; the order counts
	TP              Parallel          `json:"tp,omitzero"`                 // required: tensor parallel
	PP              Parallel          `json:"pp,omitzero"`                 // required: pipeline parallel
	CP              Parallel          `json:"cp,omitzero"`                 // required: context parallel
	RoPE            string            `json:"rope,omitempty"`              // required: kind and parameters; None without
	Attention       string            `json:"attention,omitempty"`         // required: e.g. "gqa", "mla", "swa:4096"
	AdapterDigest   string            `json:"adapter_digest,omitempty"`    // empty: no adapter
	Quantisation    Quantisation      `json:"quantisation,omitzero"`       // zero: not quantised
	HybridKVManager Switch            `json:"hybrid_kv_manager,omitempty"` // required
	EngineName      string            `json:"engine,omitempty"`            // required
	LayoutVersion   string            `json:"layout_version,omitempty"`    // required: changes when the engine moves bytes
	Hash            HashScheme        `json:"hash,omitzero"`               // required, all three
	Extra           map[string]string `json:"extra,omitempty"`             // empty: nothing more
}

// Opaque is the layout of a namespace of plain keys: values whose meaning only
// the caller knows, one plane of any size. Block hashes are the SHA-256 of the
// key.
func Opaque(name string) Layout {
	return Layout{
		Model: name, WeightsDigest: None, DType: "bytes", KVLayout: Custom("opaque"),
		TokensPerBlock: 1, Layers: 1, KVHeads: 1, HeadSize: 1,
		Planes: []Plane{{Name: "value"}},
		TP:     Parallel{Agnostic: true}, PP: Parallel{Agnostic: true}, CP: Parallel{Agnostic: true},
		RoPE: None, Attention: None, HybridKVManager: Off,
		EngineName: None, LayoutVersion: "1",
		Hash: HashScheme{Algorithm: "sha256", WidthBytes: 32, Root: None},
	}
}

// Clone is a copy that shares no memory with l.
func (l Layout) Clone() Layout {
	l.Planes = append([]Plane(nil), l.Planes...)
	l.Extra = maps.Clone(l.Extra)
	return l
}

// SizeBytes is the size of all planes together; fixed is false when a plane
// may have any size (it then counts as 0).
func (l Layout) SizeBytes() (sizeBytes int64, fixed bool) {
	fixed = true
	for _, p := range l.Planes {
		sizeBytes += p.SizeBytes
		fixed = fixed && p.SizeBytes != 0
	}
	return sizeBytes, fixed
}
