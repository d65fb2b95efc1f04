// Package faulttest counts the faults that tests inject, so that a run of the
// fault matrix can say how many there were and how many the store survived.
//
// A fault counts as survived only if it was seen to happen: whatever injects it
// (a hook, a filter, a child that was killed) calls [Fault.Fire]. A fault that
// did not happen shows nothing, and fails the test that meant to inject it.
//
// With SEALSTONE_FAULT_LOG set, each Tally appends a line of JSON, a [faults.Record],
// to the file of that name when its test ends.
package faulttest

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sealstone/sealstone/internal/faults"
)

// Tally counts the faults of one test. Its methods may be called from any
// goroutine.
type Tally struct {
	t  testing.TB
	mu sync.Mutex
	// open are the faults not yet judged, in the order in which they were
	// announced.
	open []*Fault
	rec  faults.Record
}

// Fault is one fault that a test means to inject.
type Fault struct {
	name     string
	fired    atomic.Bool
	survived atomic.Bool
}

// New starts a count that is closed when t ends: then every fault must have
// been fired and survived, else t fails.
func New(t testing.TB) *Tally {
	t.Helper()
	y := &Tally{t: t, rec: faults.Record{Test: t.Name()}}
	t.Cleanup(y.close)
	return y
}

// Try announces a fault; the name says what and where, as "EIO at write 12 of
// wal/1.wal".
func (y *Tally) Try(name string) *Fault {
	f := &Fault{name: name}
	y.mu.Lock()
	y.open = append(y.open, f)
	y.mu.Unlock()
	return f
}

// Fire says that the fault has happened.
func (f *Fault) Fire() { f.fired.Store(true) }

// Fired reports whether it has.
func (f *Fault) Fired() bool { return f.fired.Load() }

// Survive says that all that had to hold after the fault did hold.
func (f *Fault) Survive() { f.survived.Store(true) }

// Settle judges the faults announced so far and forgets them: for tests with
// so many that they would not all be kept. What has not fired or not survived
// fails the test.
func (y *Tally) Settle() {
	y.t.Helper()
	y.mu.Lock()
	open := y.open
	y.open = nil
	y.mu.Unlock()
	for _, f := range open {
		y.judge(f)
	}
}

func (y *Tally) judge(f *Fault) {
	y.t.Helper()
	y.mu.Lock()
	y.rec.Faults++
	if f.Fired() && f.survived.Load() {
		y.rec.Survived++
	}
	y.mu.Unlock()
	switch {
	case !f.Fired():
		y.t.Errorf("the fault %q did not happen: nothing was shown", f.name)
	case !f.survived.Load():
		y.t.Errorf("the fault %q was not survived", f.name)
	}
}

// WrongBytes counts bytes that were served and are not those that were stored.
// Any fail the test.
func (y *Tally) WrongBytes(n int64) {
	y.t.Helper()
	if n == 0 {
		return
	}
	y.mu.Lock()
	y.rec.WrongBytes += n
	y.mu.Unlock()
	y.t.Errorf("%d WRONG BYTES were served", n)
}

// Seeds counts random histories that were run, Kills processes that were
// killed.
func (y *Tally) Seeds(n int64) { y.add(&y.rec.Seeds, n) }

// Kills counts processes that were killed.
func (y *Tally) Kills(n int64) { y.add(&y.rec.Kills, n) }

func (y *Tally) add(to *int64, n int64) {
	y.mu.Lock()
	defer y.mu.Unlock()
	*to += n
}

func (y *Tally) close() {
	y.t.Helper()
	y.Settle()
	y.mu.Lock()
	defer y.mu.Unlock()
	y.rec.Failed = y.t.Failed()
	if y.t.Skipped() {
		return
	}
	if err := y.rec.Append(); err != nil {
		y.t.Errorf("the log of faults: %v", err)
	}
}
