package engine

import (
	"errors"
	"syscall"

	"github.com/sealstone/sealstone/internal/memguard"
)

// touchGuarded does f, which reads or writes spans of the caller, of which some
// may go away.
func (s *Store) touchGuarded(spans [][]byte, f func() error) error {
	var err error
	if gone := memguard.Do(spans, func() { err = f() }); gone != nil {
		return s.memoryGone(gone)
	}
	return err
}

// memoryGone is the error of a block whose bytes could not be moved because of
// the caller's memory.
func (s *Store) memoryGone(cause error) error {
	s.count.memoryGone.Add(1)
	return &BlockError{
		Status: StatusInvalid, Offset: -1, Err: cause,
		Reason: "the caller's memory went away: keep it mapped, and its file as long, until the call returns",
	}
}

// touch does f, which reads or writes the memory that a block is wanted in.
func (g *getBatch) touch(w *want, f func() error) error {
	if !w.guarded {
		return f()
	}
	return g.s.touchGuarded(w.allSpans(), f)
}

// allSpans are the spans of all parts.
func (w *want) allSpans() (all [][]byte) {
	for i := range w.parts {
		all = append(all, w.parts[i].Spans...)
	}
	return all
}

// clear takes bytes that did not come out right back out of the caller's
// memory.
func (w *want) clear(spans [][]byte) {
	if w.guarded {
		memguard.Clear(spans)
		return
	}
	clearAll(spans)
}

func clearAll(spans [][]byte) {
	for _, s := range spans {
		clear(s)
	}
}

// ofTheCaller turns the system's refusal of an address into an error of the
// block whose bytes were read straight into the caller's memory: the disk has
// no addresses.
func (f *flight) ofTheCaller(err error) error {
	if f.straight && errors.Is(err, syscall.EFAULT) {
		return f.g.s.memoryGone(errors.Join(ErrMemoryGone, err))
	}
	return err
}
