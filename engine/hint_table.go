package engine

import (
	"encoding/binary"
	"sync"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"

	"github.com/sealstone/sealstone/engine/index"
)

// hintShardBits: the table is cut into 256 parts, each with a lock of its own,
// so that growing one holds up few.
const hintShardBits = 8

// hintState says what an answer of the table is worth.
type hintState int32

const (
	// hintOff: no table. Every block may be there.
	hintOff hintState = iota
	// hintFilling: changes of the index are entered, what it held before is
	// being read. Every block may be there.
	hintFilling
	// hintComplete: the table holds every block of the index. What is not in
	// is not there.
	hintComplete
	// hintOverflowed: the budget did not hold all blocks; the memory is given
	// back. Every block may be there.
	hintOverflowed
)

func (s hintState) String() string {
	return [...]string{"off", "filling", "complete", "overflowed"}[s]
}

// hintTable knows which blocks the index holds, in memory outside the Go heap
// and within a budget. It only ever saves questions: a no is as good as the
// index's, a yes means "probably".
//
// States go from filling to complete or overflowed, from complete to
// overflowed, and from any to off, which is the end; a reopened store begins
// again.
type hintTable struct {
	budgetBytes int64
	state       atomic.Int32
	bytes       atomic.Int64
	blocks      atomic.Int64
	asked       atomic.Int64 // while complete
	skipped     atomic.Int64 // of those, not there
	shards      [1 << hintShardBits]lockedShard
}

type lockedShard struct {
	mu sync.Mutex
	hintShard
}

// newHintTable makes a table that waits to be filled; without a budget it is
// off.
func newHintTable(budgetBytes int64) *hintTable {
	t := &hintTable{budgetBytes: budgetBytes}
	if budgetBytes > 0 {
		t.state.Store(int32(hintFilling))
	}
	return t
}

// is reports the state; no table is one that is off.
func (t *hintTable) is(s hintState) bool {
	if t == nil {
		return s == hintOff
	}
	return hintState(t.state.Load()) == s
}

// hintSum is what the table knows a key by.
func hintSum(k index.Key) uint64 {
	var p [4 + MaxHashBytes]byte
	binary.LittleEndian.PutUint32(p[:], k.Namespace)
	return xxhash.Sum64(p[:4+copy(p[4:], k.Hash)])
}

// maybe reports whether the index may hold a key. Ask only after the overlay
// has been looked at: what is applied enters the table before it leaves there.
func (t *hintTable) maybe(k index.Key) bool {
	if !t.is(hintComplete) {
		return true
	}
	sum := hintSum(k)
	s := &t.shards[sum>>(64-hintShardBits)]
	s.mu.Lock()
	has := s.has(sum)
	s.mu.Unlock()
	// The table may have lost something, or everything, meanwhile.
	if !has && t.is(hintComplete) {
		t.asked.Add(1)
		t.skipped.Add(1)
		return false
	}
	t.asked.Add(1)
	return true
}

// add enters a block that the index holds.
func (t *hintTable) add(k index.Key, seq uint64) {
	sum := hintSum(k)
	s := &t.shards[sum>>(64-hintShardBits)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if !t.is(hintFilling) && !t.is(hintComplete) {
		return
	}
	if s.isFull() && !t.growLocked(&s.hintShard) {
		t.state.Store(int32(hintOverflowed)) // before anybody misses the block
		return
	}
	before := s.used
	s.add(sum, seq)
	t.blocks.Add(int64(s.used - before))
}

// growLocked makes room in a shard; false if the budget or the system has none.
func (t *hintTable) growLocked(s *hintShard) bool {
	old, slots := int64(s.slots*hintSlotBytes), s.grownSlots()
	more := int64(slots * hintSlotBytes)
	if t.bytes.Add(more) > t.budgetBytes || s.grow(slots) != nil {
		t.bytes.Add(-more)
		return false
	}
	t.bytes.Add(-old)
	return true
}

// remove takes out a block that the index holds no more.
func (t *hintTable) remove(k index.Key, seq uint64) {
	sum := hintSum(k)
	s := &t.shards[sum>>(64-hintShardBits)]
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.used
	s.remove(sum, seq)
	t.blocks.Add(-int64(before - s.used))
}

// complete ends the filling: all that the index held has been entered. It
// reports false if the table has overflowed.
func (t *hintTable) complete() bool {
	return t.state.CompareAndSwap(int32(hintFilling), int32(hintComplete))
}

// giveBack frees the memory of a table that has overflowed.
func (t *hintTable) giveBack() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		t.bytes.Add(-int64(s.slots * hintSlotBytes))
		t.blocks.Add(-int64(s.used))
		s.free()
		s.mu.Unlock()
	}
}

// close ends the table; who still asks is told "maybe".
func (t *hintTable) close() {
	t.state.Store(int32(hintOff))
	t.giveBack()
}
