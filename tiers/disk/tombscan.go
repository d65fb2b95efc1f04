package disk

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/sealstone/sealstone/internal/sums"
)

// DecodeTombstones reads a whole tombstone file. It returns the tombstones in
// order and the slot behind the last one in use, where the next is written; a
// last slot that the file's end cuts short counts as unused.
//
// Empty slots within the last append are what a power cut leaves of one that
// was not answered yet: they are no error, and what is there of it counts.
// Any other empty slot before a used one is damage.
//
// With an error (the first one met: ErrCorrupt or ErrUnsupported wrapped) the
// sound tombstones are returned all the same: a tombstone that is forgotten
// brings a dropped block back. One that is damaged may have been anything, so
// the segment must not be used for a rebuild on their word alone.
func DecodeTombstones(p []byte, segment uint64, uuid [16]byte, k sums.Key) (ts []Tombstone, next int, err error) {
	s := scanTombstones(p, segment, uuid, k)
	return s.found, s.next, s.err
}

// slotRange is the slots from first up to and without end.
type slotRange struct{ first, end int }

// noBatch explains no hole.
const noBatch = math.MaxInt

// tombScan is what a tombstone file holds.
type tombScan struct {
	found []Tombstone
	next  int         // behind the last used slot
	batch int         // of the last used slot, or noBatch
	holes []slotRange // empty, and used slots behind them
	err   error

	lastSound int // number of the last sound slot, 0 for none
	lastBatch int // and its batch
}

func scanTombstones(p []byte, segment uint64, uuid [16]byte, k sums.Key) tombScan {
	s := tombScan{next: FirstTombstoneSlot, batch: noBatch}
	var slotErr error
	errSlot := noBatch
	for slot := FirstTombstoneSlot; (slot+1)*TombstoneSlotBytes <= len(p); slot++ {
		b := p[slot*TombstoneSlotBytes:][:TombstoneSlotBytes]
		if allZero(b) {
			continue
		}
		if slot > s.next {
			s.holes = append(s.holes, slotRange{s.next, slot})
		}
		s.next = slot + 1
		if err := s.add(b, segment, slot, k); err != nil && slotErr == nil {
			slotErr, errSlot = atSlot(err, segment, slot), slot
		}
	}
	if hole, ok := s.damagedHole(); ok && hole.first < errSlot {
		slotErr = tombstoneSlot.corrupt(ReasonField, fmt.Errorf("slots %d to %d are empty, and slot %d is in use", hole.first, hole.end-1, hole.end))
		slotErr = atSlot(slotErr, segment, hole.first)
	}
	if s.err = checkTombstoneHeader(p, segment, uuid, k); s.err == nil {
		s.err = slotErr
	}
	return s
}

// add takes in a used slot. A sound tombstone counts even where its batch
// contradicts that of the slots before it.
func (s *tombScan) add(p []byte, segment uint64, slot int, k sums.Key) error {
	s.batch = noBatch
	t, batch, err := getTombstone(p, segment, slot, k)
	if err != nil {
		return err
	}
	s.found = append(s.found, t)
	prevSlot, prevBatch := s.lastSound, s.lastBatch
	s.lastSound, s.lastBatch = slot, batch
	if batch != prevBatch && batch <= prevSlot {
		return tombstoneSlot.field(tombBatchOffset, "of a batch from %d, slot %d before it is of one from %d", batch, prevSlot, prevBatch)
	}
	s.batch = batch
	return nil
}

// damagedHole returns the first hole that a torn last append does not explain:
// each append began after the one before it was durable.
func (s *tombScan) damagedHole() (slotRange, bool) {
	if len(s.holes) > 0 && s.holes[0].first < s.batch {
		return s.holes[0], true
	}
	return slotRange{}, false
}

// torn returns the holes in the last append.
func (s *tombScan) torn() []slotRange {
	for i, hole := range s.holes {
		if hole.first >= s.batch {
			return s.holes[i:]
		}
	}
	return nil
}

// checkTombstoneHeader checks the file's header, which p begins with.
func checkTombstoneHeader(p []byte, segment uint64, uuid [16]byte, k sums.Key) error {
	if len(p) < TombstoneHeaderBytes {
		return atSlot(tombstoneFile.corrupt(ReasonShort, fmt.Errorf("file of %d bytes", len(p))), segment, 0)
	}
	p = p[:TombstoneHeaderBytes]
	f, _, err := tombstoneFile.open(p, k)
	if err != nil {
		return atSlot(err, segment, 0)
	}
	gotUUID, gotSegment := [16]byte(p[tombUUIDOffset:]), binary.LittleEndian.Uint64(p[tombSegmentOffset:])
	if gotUUID != uuid || gotSegment != segment {
		err := fmt.Errorf("of store %x segment %016x, want %x %016x", gotUUID, gotSegment, uuid, segment)
		return atSlot(tombstoneFile.corrupt(ReasonPlace, err), segment, 0)
	}
	if err := tombstoneFile.reserved(p[ownOffset:featureOffset], f, ownOffset); err != nil {
		return atSlot(err, segment, 0)
	}
	return atSlot(tombstoneFile.reserved(p[56:], f, 56), segment, 0)
}

// atSlot adds to a CorruptError where its bytes were read.
func atSlot(err error, segment uint64, slot int) error {
	if c, ok := err.(*CorruptError); ok {
		c.Segment = segment
		c.Offset += TombstoneOffset(slot)
	}
	return err
}
