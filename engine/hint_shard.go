package engine

import (
	"encoding/binary"
	"math/bits"

	"github.com/sealstone/sealstone/internal/aligned"
)

const (
	// hintSlotBytes is what a block takes: the sum of its key and its put
	// sequence. The sequence tells blocks apart whose keys have one sum, so
	// that taking one out leaves the other.
	hintSlotBytes = 16
	// hintFirstSlots fill the smallest buffer there is.
	hintFirstSlots = aligned.PageBytes / hintSlotBytes
)

// hintShard is a hash table of slots, open addressing with linear probing. An
// empty slot has the sequence 0, which no put has. Not safe for concurrent use.
type hintShard struct {
	buf   *aligned.Buffer
	mem   []byte
	slots uint64
	used  uint64
}

func (h *hintShard) at(i uint64) (sum, seq uint64) {
	p := h.mem[i*hintSlotBytes:][:hintSlotBytes]
	return binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
}

func (h *hintShard) set(i, sum, seq uint64) {
	p := h.mem[i*hintSlotBytes:][:hintSlotBytes]
	binary.LittleEndian.PutUint64(p, sum)
	binary.LittleEndian.PutUint64(p[8:], seq)
}

// home is where a sum's slot would best be. The bits that chose the shard are
// the same for all in here, and left out.
func (h *hintShard) home(sum uint64) uint64 {
	hi, _ := bits.Mul64(sum<<hintShardBits, h.slots)
	return hi
}

func (h *hintShard) after(i uint64) uint64 {
	if i++; i < h.slots {
		return i
	}
	return 0
}

// has reports whether any block with this sum is in.
func (h *hintShard) has(sum uint64) bool {
	if h.slots == 0 {
		return false
	}
	for i := h.home(sum); ; i = h.after(i) {
		switch s, seq := h.at(i); {
		case seq == 0:
			return false
		case s == sum:
			return true
		}
	}
}

// isFull reports whether a slot more would make probing long: one in eight
// stays empty, which also ends every probe.
func (h *hintShard) isFull() bool { return h.used >= h.slots-h.slots/8 }

// add puts a block in, once; there must be room.
func (h *hintShard) add(sum, seq uint64) {
	i := h.home(sum)
	for {
		s, q := h.at(i)
		if q == 0 {
			break
		}
		if s == sum && q == seq {
			return
		}
		i = h.after(i)
	}
	h.set(i, sum, seq)
	h.used++
}

// remove takes a block out, if it is in. What stands behind it moves up, so
// that no probe ends early.
func (h *hintShard) remove(sum, seq uint64) {
	if h.slots == 0 {
		return
	}
	i := h.home(sum)
	for {
		s, q := h.at(i)
		if q == 0 {
			return
		}
		if s == sum && q == seq {
			break
		}
		i = h.after(i)
	}
	h.used--
	hole := i
	for j := h.after(i); ; j = h.after(j) {
		s, q := h.at(j)
		if q == 0 {
			break
		}
		if h.reaches(h.home(s), hole, j) {
			h.set(hole, s, q)
			hole = j
		}
	}
	h.set(hole, 0, 0)
}

// reaches reports whether a probe that begins at home and finds j passes the
// hole: home, hole and j come in this order, going round.
func (h *hintShard) reaches(home, hole, j uint64) bool {
	if home <= j {
		return home <= hole && hole <= j
	}
	return hole >= home || hole <= j
}

// grownSlots is how many slots the next larger table has.
func (h *hintShard) grownSlots() uint64 {
	if h.slots == 0 {
		return hintFirstSlots
	}
	return (h.slots + h.slots/4 + hintFirstSlots) / hintFirstSlots * hintFirstSlots
}

// grow moves into a larger table.
func (h *hintShard) grow(slots uint64) error {
	buf, err := aligned.Alloc(int(slots * hintSlotBytes))
	if err != nil {
		return err
	}
	old := *h
	*h = hintShard{buf: buf, mem: buf.Bytes(), slots: slots}
	for i := range old.slots {
		if sum, seq := old.at(i); seq != 0 {
			h.add(sum, seq)
		}
	}
	old.buf.Free()
	return nil
}

func (h *hintShard) free() {
	h.buf.Free()
	*h = hintShard{}
}
