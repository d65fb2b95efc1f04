//go:build !linux

package uring

import (
	"fmt"
	"runtime"
	"time"
)

// MaxEntries is the largest ring that New makes.
const MaxEntries = 4096

// Ring is an io_uring, of which this system has none.
type Ring struct{}

// New fails with ErrUnsupported.
func New(int) (*Ring, error) {
	return nil, fmt.Errorf("%w: io_uring is Linux's, this is %s", ErrUnsupported, runtime.GOOS)
}

// The methods of a Ring that nobody can have.

// Push answers false.
func (r *Ring) Push(SQE) bool { return false }

// Pending answers 0.
func (r *Ring) Pending() int { return 0 }

// InFlight answers 0.
func (r *Ring) InFlight() int { return 0 }

// Enter fails with ErrUnsupported.
func (r *Ring) Enter(int, time.Duration) error { return ErrUnsupported }

// Wait fails with ErrUnsupported.
func (r *Ring) Wait(int, time.Duration) error { return ErrUnsupported }

// Next answers that nothing is there.
func (r *Ring) Next() (CQE, bool) { return CQE{}, false }

// Close does nothing.
func (r *Ring) Close() error { return nil }

// Entries answers 0.
func (r *Ring) Entries() int { return 0 }

// Modes answers "none".
func (r *Ring) Modes() string { return "none" }

// RegisterFiles fails with ErrUnsupported.
func (r *Ring) RegisterFiles(int) error { return ErrUnsupported }

// UpdateFile fails with ErrUnsupported.
func (r *Ring) UpdateFile(int, int) error { return ErrUnsupported }

// UnregisterFiles fails with ErrUnsupported.
func (r *Ring) UnregisterFiles() error { return ErrUnsupported }

// RegisterBuffers fails with ErrUnsupported.
func (r *Ring) RegisterBuffers([][]byte) error { return ErrUnsupported }

// UnregisterBuffers fails with ErrUnsupported.
func (r *Ring) UnregisterBuffers() error { return ErrUnsupported }

// Probe fails with ErrUnsupported.
func (r *Ring) Probe() (*Operations, error) { return nil, ErrUnsupported }

// Waker ends a wait, of which there are none here.
type Waker struct{}

// NewWaker fails with ErrUnsupported.
func NewWaker() (*Waker, error) { return nil, ErrUnsupported }

// Entry answers an entry that nothing takes.
func (w *Waker) Entry() SQE { return Nop() }

// Wake does nothing.
func (w *Waker) Wake() {}

// Close does nothing.
func (w *Waker) Close() {}
