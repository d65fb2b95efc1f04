package engine

import "github.com/sealstone/sealstone/engine/index"

// lookupNowPortion is how many keys are looked up in the overlay under one
// hold of the store's lock.
const lookupNowPortion = 512

// LookupNow answers for each hash from memory alone, in order: no I/O, no
// waiting for a device or for the index, microseconds. Not even a device that
// hangs holds it up, so it may be asked from a scheduler's loop.
//
//   - OK: probably stored, a Get is worth it. Only the Get proves bytes; the
//     block may be damaged, or go meanwhile.
//   - Miss: not stored.
//   - Timeout: memory does not know. The table behind it (Options.HintBytes) is
//     still being filled after Open, was given too little room or is off. Has
//     asks the index.
//   - StaleEpoch, Closed, Invalid as everywhere. A store that answers misses
//     only (HealthAllMiss) does so here.
//
// A block that was found bad may be OK until its quarantine is applied to the
// index, by the next sync or the one after.
func (n *Namespace) LookupNow(hashes [][]byte) []Status {
	s := n.s
	out := make([]Status, len(hashes))
	if st := n.lookupNowRefusal(); st != statusNone {
		for i := range out {
			out[i] = st
		}
		return out
	}
	defer s.ops.done()
	for from := 0; from < len(hashes); from += lookupNowPortion {
		to := min(from+lookupNowPortion, len(hashes))
		n.lookupNow(hashes[from:to], out[from:to])
	}
	return out
}

// lookupNowRefusal is the status of all hashes where they are not looked up.
// If it is statusNone a call was begun, for Close to wait for.
func (n *Namespace) lookupNowRefusal() Status {
	if err := n.s.begin(); err != nil {
		return StatusClosed
	}
	if err := n.s.readable(n); err != nil {
		n.s.ops.done()
		return askStatus(err)
	}
	return statusNone
}

// lookupNow looks a portion up: the overlay first, as everywhere, then what
// the hint table says of the puts that neither a drop nor an epoch hides.
func (n *Namespace) lookupNow(hashes [][]byte, out []Status) {
	s := n.s
	var lowest [lookupNowPortion]uint64 // the put sequence from which an entry of the index counts
	s.mu.Lock()
	floor := s.floorLocked(n.info.Number)
	for i, h := range hashes {
		if checkHash(h) != nil {
			out[i] = StatusInvalid
			continue
		}
		out[i], lowest[i] = s.overlayNowLocked(index.Key{Namespace: n.info.Number, Hash: string(h)}, floor)
	}
	s.mu.Unlock()
	for i, h := range hashes {
		if out[i] == statusNone {
			out[i] = s.hint.now(index.Key{Namespace: n.info.Number, Hash: string(h)}, lowest[i])
		}
	}
}

// overlayNowLocked says what the overlay knows of a key; statusNone with the
// least sequence that counts where it is for the index to say.
func (s *Store) overlayNowLocked(k index.Key, floor uint64) (Status, uint64) {
	v := s.overlay.look(k)
	if !v.found {
		if v.dropSeq > 0 {
			return statusNone, max(floor, v.dropSeq+1)
		}
		return statusNone, floor
	}
	if _, bad := s.bad[v.entry.Address]; bad || v.entry.Seq < floor {
		return StatusMiss, 0
	}
	return StatusOK, 0
}

// now answers for a key that the overlay does not have: whether the index holds
// a put of it with a sequence of lowest or more.
func (t *hintTable) now(k index.Key, lowest uint64) Status {
	if t.is(hintOff) || t.is(hintOverflowed) {
		return StatusTimeout
	}
	sum := hintSum(k)
	s := &t.shards[sum>>(64-hintShardBits)]
	s.mu.Lock()
	has := s.hasFrom(sum, lowest)
	s.mu.Unlock()
	switch {
	case has:
		return StatusOK
	case t.is(hintComplete): // asked last: it may have lost everything meanwhile
		return StatusMiss
	}
	return StatusTimeout
}

// hasFrom reports whether a block with this sum and a put sequence of lowest or
// more is in.
func (h *hintShard) hasFrom(sum, lowest uint64) bool {
	if h.slots == 0 {
		return false
	}
	for i := h.home(sum); ; i = h.after(i) {
		switch s, seq := h.at(i); {
		case seq == 0:
			return false
		case s == sum && seq >= lowest:
			return true
		}
	}
}
