package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sealstone/sealstone/internal/sums"
)

// A tombstone file stands beside each segment and dies with it. It is a list
// of slots of 128 bytes, appended to and never overwritten. A slot never
// crosses a sector of 512 bytes, so that it is written as a whole or not at
// all; an append of several slots may be torn between sectors. The file's
// header takes the first four slots, one sector:
//
//	┌─────────────────────────────┐   ┌───────────────────────────────────────┐
//	│   0  preamble "SLSTTOMB" 32 │   │ 0 kind        1 │ 16 page           4 │
//	│  32  store uuid          16 │   │ 1 hash length 1 │ 20 batch          4 │
//	│  48  segment id           8 │   │ 2 zero        2 │ 24 sum            8 │
//	│  56  zero               456 │   │ 4 namespace   4 │ 32 hash, zero to 96 │
//	└─────────────────────────────┘   │ 8 put seq     8 │ 96 zero          32 │
//	                                  └───────────────────────────────────────┘
//
// The batch of a slot is the number of the slot at which its append began. The
// sum of a slot is keyed and binds segment id and slot number.
var (
	tombstoneFile = artifact{"tombstone file header", "SLSTTOMB", sums.DomainTombstoneFile}
	tombstoneSlot = artifact{what: "tombstone", domain: sums.DomainTombstone}
)

const (
	// TombstoneSlotBytes is the size of one tombstone.
	TombstoneSlotBytes = 128
	// TombstoneHeaderBytes is the size of the file's header.
	TombstoneHeaderBytes = 512
	// FirstTombstoneSlot is the slot of the first tombstone. Slots are
	// counted from the beginning of the file.
	FirstTombstoneSlot = TombstoneHeaderBytes / TombstoneSlotBytes

	tombUUIDOffset    = 32
	tombSegmentOffset = 48

	tombBatchOffset = 20
	tombHashOffset  = 32
)

// TombstoneKind says what a tombstone kills.
type TombstoneKind uint8

const (
	// TombstoneDrop kills every extent of the key (Namespace, Hash) with a
	// put sequence up to Seq, in any segment. Page may name the one that was
	// dropped.
	TombstoneDrop TombstoneKind = 1
	// TombstoneQuarantine kills the extent at Page of this segment, which was
	// found bad, and what it holds for its aliases.
	TombstoneQuarantine TombstoneKind = 2
	// TombstoneDead kills the extent at Page of this segment for its own key
	// alone: a moved source, a refused copy, a shed put. Its bytes are good.
	TombstoneDead TombstoneKind = 3
)

// String returns the kind's name.
func (k TombstoneKind) String() string {
	switch k {
	case TombstoneDrop:
		return "drop"
	case TombstoneQuarantine:
		return "quarantine"
	case TombstoneDead:
		return "dead"
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// Tombstone says that an extent, or all extents of a key, are no more.
type Tombstone struct {
	Kind      TombstoneKind
	Namespace uint32
	Seq       uint64
	Page      uint32 // in the file's own segment; 0 for none, which only a drop may have
	Hash      []byte // MinHashBytes to MaxHashBytes; may be empty but for a drop
}

// check reports the first field that the format does not allow.
func (t *Tombstone) check() error {
	if n := len(t.Hash); n > MaxHashBytes || (n < MinHashBytes && (n != 0 || t.Kind == TombstoneDrop)) {
		return fmt.Errorf("%v: hash of %d bytes", t.Kind, n)
	}
	if t.Kind != TombstoneDrop && t.Page == 0 {
		return fmt.Errorf("%v: no page", t.Kind)
	}
	return nil
}

// TombstoneOffset returns the offset of a slot in its file.
func TombstoneOffset(slot int) int64 { return int64(slot) * TombstoneSlotBytes }

// EncodeTombstoneHeader writes the header of a tombstone file into dst, which
// has TombstoneHeaderBytes. Errors wrap ErrInvalid.
func EncodeTombstoneHeader(dst []byte, segment uint64, uuid [16]byte, k sums.Key) error {
	if len(dst) != TombstoneHeaderBytes {
		return invalidf("encode tombstone file header: %d bytes of room, want %d", len(dst), TombstoneHeaderBytes)
	}
	clear(dst)
	if err := tombstoneFile.begin(dst, Features{}); err != nil {
		return err
	}
	copy(dst[tombUUIDOffset:], uuid[:])
	binary.LittleEndian.PutUint64(dst[tombSegmentOffset:], segment)
	tombstoneFile.seal(dst, k)
	return nil
}

// EncodeTombstone writes t into dst, which has TombstoneSlotBytes and is to
// be written at TombstoneOffset(slot), by an append that began at slot batch.
// Errors wrap ErrInvalid.
func EncodeTombstone(dst []byte, t Tombstone, segment uint64, slot, batch int, k sums.Key) error {
	if len(dst) != TombstoneSlotBytes || batch < FirstTombstoneSlot || slot < batch || slot > math.MaxUint32 {
		return invalidf("encode tombstone: %d bytes of room for slot %d of a batch from %d", len(dst), slot, batch)
	}
	if t.Kind < TombstoneDrop || t.Kind > TombstoneDead {
		return invalidf("encode tombstone: %v", t.Kind)
	}
	if err := t.check(); err != nil {
		return invalidf("encode tombstone: %v", err)
	}
	clear(dst)
	dst[0] = byte(t.Kind)
	dst[1] = byte(len(t.Hash))
	binary.LittleEndian.PutUint32(dst[4:], t.Namespace)
	binary.LittleEndian.PutUint64(dst[8:], t.Seq)
	binary.LittleEndian.PutUint32(dst[16:], t.Page)
	binary.LittleEndian.PutUint32(dst[tombBatchOffset:], uint32(batch))
	copy(dst[tombHashOffset:], t.Hash)
	binary.LittleEndian.PutUint64(dst[sumOffset:], tombstoneSum(dst, segment, slot, k))
	return nil
}

// tombstoneSum computes the sum of the slot p.
func tombstoneSum(p []byte, segment uint64, slot int, k sums.Key) uint64 {
	var place [16]byte
	binary.LittleEndian.PutUint64(place[0:], segment)
	binary.LittleEndian.PutUint64(place[8:], uint64(slot))
	return k.Sum(tombstoneSlot.domain, place[:], p[:sumOffset], p[sumEnd:])
}

// getTombstone reads one slot that is in use, and the slot at which its append
// began. The hash does not share memory with p.
func getTombstone(p []byte, segment uint64, slot int, k sums.Key) (t Tombstone, batch int, err error) {
	if stored, sum := storedSum(p), tombstoneSum(p, segment, slot, k); stored != sum {
		return t, 0, tombstoneSlot.corrupt(ReasonSum, fmt.Errorf("stored %016x, computed %016x", stored, sum))
	}
	t = Tombstone{
		Kind:      TombstoneKind(p[0]),
		Namespace: binary.LittleEndian.Uint32(p[4:]),
		Seq:       binary.LittleEndian.Uint64(p[8:]),
		Page:      binary.LittleEndian.Uint32(p[16:]),
	}
	if t.Kind < TombstoneDrop || t.Kind > TombstoneDead {
		return t, 0, &UnsupportedError{What: tombstoneSlot.what, Version: FormatVersion, Detail: t.Kind.String()}
	}
	first := binary.LittleEndian.Uint32(p[tombBatchOffset:])
	if first < FirstTombstoneSlot || int64(first) > int64(slot) {
		return t, 0, tombstoneSlot.field(tombBatchOffset, "slot %d of a batch from %d", slot, first)
	}
	hash := int(p[1])
	if hash > MaxHashBytes {
		return t, 0, tombstoneSlot.field(1, "hash of %d bytes", hash)
	}
	hashEnd := tombHashOffset + hash
	if !allZero(p[2:4]) || !allZero(p[hashEnd:]) {
		return t, 0, tombstoneSlot.field(2, "reserved bytes are not zero")
	}
	if hash > 0 {
		t.Hash = bytes.Clone(p[tombHashOffset:hashEnd])
	}
	if err := t.check(); err != nil {
		return t, 0, tombstoneSlot.field(0, "%w", err)
	}
	return t, int(first), nil
}
