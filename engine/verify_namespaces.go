package engine

import (
	"cmp"
	"slices"

	"github.com/sealstone/sealstone/engine/meta"
)

// NamespaceTotals says how a namespace fared.
type NamespaceTotals struct {
	Number uint32 `json:"number"`
	Tenant string `json:"tenant"`
	Model  string `json:"model"` // of the layout
	// Blocks are the stored ones that were judged, RawBytes what they come to.
	Blocks   int64 `json:"blocks"`
	RawBytes int64 `json:"raw_bytes"`
	// LostBlocks of them are damaged, unreadable or missing: a get is a miss.
	LostBlocks   int64 `json:"lost_blocks"`
	LostRawBytes int64 `json:"lost_raw_bytes"`
	// NotReadBlocks of them are outside the sample.
	NotReadBlocks int64 `json:"not_read_blocks"`
}

// count adds a verdict to the totals of its namespace.
func (f *findings) count(b BlockVerdict) {
	if b.Role != RoleBlock {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.totals == nil {
		f.totals = map[uint32]*NamespaceTotals{}
	}
	t := f.totals[b.Namespace]
	if t == nil {
		t = &NamespaceTotals{Number: b.Namespace}
		f.totals[b.Namespace] = t
	}
	t.Blocks++
	t.RawBytes += b.RawBytes
	switch b.Verdict {
	case VerdictDamaged, VerdictUnreadable, VerdictMissing:
		t.LostBlocks++
		t.LostRawBytes += b.RawBytes
	case VerdictNotRead:
		t.NotReadBlocks++
	}
}

// namespaces lists the totals by number, with the names that NAMESPACES has.
func (f *findings) namespaces(known []meta.Namespace) []NamespaceTotals {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := []NamespaceTotals{}
	for _, n := range known {
		t := NamespaceTotals{Number: n.Number}
		if have := f.totals[n.Number]; have != nil {
			t = *have
		}
		t.Tenant, t.Model = n.Tenant, n.Layout.Model
		out = append(out, t)
		delete(f.totals, n.Number)
	}
	for _, t := range f.totals { // of blocks that say a number which is not there
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b NamespaceTotals) int { return cmp.Compare(a.Number, b.Number) })
	return out
}
