package engine

import (
	"encoding/hex"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
)

// Verdict is what Verify says of a block or of an extent.
type Verdict string

// The verdicts. Those from VerdictDead on are of extents that no block refers
// to: they cost nothing but space.
const (
	VerdictOK         Verdict = "ok"          // header, every chunk and the fill hold, and the index says the same
	VerdictPadding    Verdict = "padding"     // as ok, but fill between planes is not zero; a get returns the block
	VerdictDamaged    Verdict = "damaged"     // header or bytes do not verify: a get is a miss
	VerdictUnreadable Verdict = "unreadable"  // the device or the file system failed
	VerdictMissing    Verdict = "missing"     // the segment's file is gone
	VerdictNotRead    Verdict = "not_read"    // outside the sample; the records about it agree
	VerdictDead       Verdict = "dead"        // dropped, moved on or outdated, and whole
	VerdictDeadBad    Verdict = "dead_bad"    // the same, and it does not verify
	VerdictQuarantine Verdict = "quarantined" // found bad earlier, and taken out of the index
	VerdictOrphan     Verdict = "orphan"      // whole; neither index nor footer knows it
	VerdictTorn       Verdict = "torn"        // an orphan that does not verify: what a power cut leaves
)

// ExtentRole says what an extent is to the store.
type ExtentRole string

// The roles.
const (
	RoleBlock ExtentRole = "block" // the bytes of a stored block
	RoleAlias ExtentRole = "alias" // the own header of a stored block that shares bytes
	RoleNone  ExtentRole = "none"  // no stored block refers to it
)

// BlockVerdict is what Verify says of one stored block (RoleBlock), or of an
// extent that is not the bytes of one. A stored block that shares its bytes
// has two: the bytes, in the role of a block, and its own header.
type BlockVerdict struct {
	Role      ExtentRole `json:"role"`
	Namespace uint32     `json:"namespace"`
	Hash      string     `json:"hash"` // hexadecimal
	Segment   uint64     `json:"segment"`
	Page      uint32     `json:"page"`  // where the extent begins, in pages of 4 KiB
	Pages     uint32     `json:"pages"` // of header and payload
	RawBytes  int64      `json:"raw_bytes,omitempty"`
	Sequence  uint64     `json:"sequence,omitempty"`
	// Alias: the block's own header stands elsewhere, at AliasSegment and
	// AliasPage; the bytes are those of an equal block.
	Alias        bool    `json:"alias,omitempty"`
	AliasSegment uint64  `json:"alias_segment,omitempty"`
	AliasPage    uint32  `json:"alias_page,omitempty"`
	Verdict      Verdict `json:"verdict"`
}

// verdict tells what is known of one block or extent.
func (v *verifier) verdict(b BlockVerdict) {
	v.out.count(b)
	if v.o.Block == nil {
		return
	}
	v.tell.Lock()
	defer v.tell.Unlock()
	if v.blockErr == nil {
		v.blockErr = v.o.Block(b)
	}
}

// blockError is what the caller's Block has returned.
func (v *verifier) blockError() error {
	v.tell.Lock()
	defer v.tell.Unlock()
	return v.blockErr
}

// verdicts tells what was found of an expected extent. disagree holds the keys
// whose entries the header contradicts.
func (v *verifier) verdicts(x *expected, segment uint64, of Verdict, disagree map[index.Key]bool) {
	at := BlockVerdict{Segment: segment, Page: x.page, Pages: x.pages, Verdict: of}
	for i := range x.blocks {
		v.verdict(at.of(&x.blocks[i], RoleBlock, disagree))
	}
	if x.alias != nil {
		v.verdict(at.of(x.alias, RoleAlias, disagree))
		if v.rec.lost != "" {
			// Where its bytes are is known only when all contents are.
			b := at.of(x.alias, RoleBlock, disagree)
			b.Segment, b.Page, b.Pages = 0, 0, 0
			b.Alias, b.AliasSegment, b.AliasPage = true, segment, x.page
			v.verdict(b)
		}
	}
	if x.kind() != DamageDead {
		return
	}
	at.Role = RoleNone
	if f := x.footer; f != nil {
		at.Namespace, at.Hash, at.RawBytes, at.Sequence = f.Namespace, hex.EncodeToString(f.Hash), f.RawBytes, f.Seq
	}
	v.verdict(at)
}

// of is the verdict on a key whose bytes or header stand at b's place.
func (b BlockVerdict) of(k *index.KeyEntry, role ExtentRole, disagree map[index.Key]bool) BlockVerdict {
	b.Role, b.Namespace, b.Hash = role, k.Namespace, hex.EncodeToString([]byte(k.Hash))
	b.RawBytes, b.Sequence = k.RawBytes, k.Seq
	if role == RoleBlock && k.IsAlias() {
		b.Alias, b.AliasSegment, b.AliasPage = true, k.Own.Address.Segment, k.Own.Address.Page
	}
	if disagree[k.Key] {
		b.Verdict = VerdictDamaged
	}
	return b
}

// verdictOf turns what is wrong with an extent into a verdict.
func (w *segmentWalk) verdictOf(x *expected, bad *fault) Verdict {
	dead := x.kind() == DamageDead
	switch {
	case bad == nil && dead:
		return VerdictDead
	case bad == nil:
		return VerdictOK
	case dead && w.tombs[x.page] == disk.TombstoneQuarantine:
		return VerdictQuarantine
	case dead:
		return VerdictDeadBad
	case bad.kind == DamagePadding:
		return VerdictPadding
	case bad.kind == DamageUnreadable:
		return VerdictUnreadable
	}
	return VerdictDamaged
}

func orphanVerdict(e *disk.Extent, v Verdict) BlockVerdict {
	return BlockVerdict{
		Role: RoleNone, Namespace: e.Namespace, Hash: hex.EncodeToString(e.Hash), Segment: e.Address.Segment, Page: e.Address.Page,
		Pages: uint32(e.Pages()), RawBytes: e.RawBytes(), Sequence: e.Seq, Verdict: v,
	}
}
