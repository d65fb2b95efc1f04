package engine

import (
	"context"
	"time"

	"github.com/sealstone/sealstone/engine/index"
)

// HintStats are figures of the table that knows which blocks the index holds.
type HintStats struct {
	State       string // off, filling, complete or overflowed
	Bytes       int64  // in use, of the budget
	BudgetBytes int64
	Blocks      int64 // entered
	// Asked counts the keys looked up in a complete table, Skipped those that
	// it spared a question to the index.
	Asked, Skipped int64
}

func (t *hintTable) stats() HintStats {
	return HintStats{
		State: hintState(t.state.Load()).String(), Bytes: t.bytes.Load(), BudgetBytes: t.budgetBytes,
		Blocks: t.blocks.Load(), Asked: t.asked.Load(), Skipped: t.skipped.Load(),
	}
}

// hintChanged takes over what an update of the index has changed. It is called
// when the update is committed and before anybody is told.
func (s *Store) hintChanged(changes []index.Change) {
	if s.hint.is(hintOff) || s.hint.is(hintOverflowed) {
		return
	}
	for _, c := range changes {
		if c.Bound {
			s.hint.add(c.Key, c.Seq)
		} else {
			s.hint.remove(c.Key, c.Seq)
		}
	}
	if s.hint.is(hintOverflowed) {
		s.hintOverflow()
	}
}

func (s *Store) hintOverflow() {
	blocks, used := s.hint.blocks.Load(), s.hint.bytes.Load()
	s.hint.giveBack()
	s.event(EventHint, "the hint table is given up: %d blocks took %d of %d bytes; misses ask the index again (Options.HintBytes)", blocks, used, s.hint.budgetBytes)
}

const (
	// hintPortion is how many keys the filler reads while the applier waits.
	hintPortion = 512
	// hintRestMin is how long the filler rests after each portion, at least;
	// it rests as long as the portion took, so it uses half a core at most.
	hintRestMin = time.Millisecond
)

// hintLoop fills the table after Open.
func (s *Store) hintLoop() {
	defer s.workers.Done()
	s.fillHint()
}

// fillHint reads the whole index into the table, a portion at a time. It ends
// early when the store closes or the index fails, and when the table has
// overflowed.
func (s *Store) fillHint() {
	var from *index.Key
	for s.hint.is(hintFilling) {
		start := time.Now()
		last, err := s.fillPortion(from)
		if err != nil {
			return // the index has failed or gives no answer in time: no hints
		}
		if s.hint.is(hintOverflowed) {
			s.hintOverflow()
			return
		}
		if last == nil {
			s.hint.complete()
			return
		}
		from = last
		select {
		case <-s.stop:
			return
		case <-time.After(max(hintRestMin, time.Since(start))):
		}
	}
}

// fillPortion enters some keys behind from, and returns the last of them or
// nil at the end. The applier waits meanwhile, so that what it unbinds is not
// entered after it was taken out.
func (s *Store) fillPortion(from *index.Key) (*index.Key, error) {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), s.o.CallTimeout)
	defer cancel()
	list, err := s.idx.KeysAfter(ctx, from, hintPortion)
	if err != nil {
		return nil, err
	}
	for _, k := range list {
		s.hint.add(k.Key, k.Seq)
	}
	if len(list) < hintPortion {
		return nil, nil
	}
	return &list[len(list)-1].Key, nil
}
