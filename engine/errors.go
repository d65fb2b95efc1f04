package engine

import (
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/engine/meta"
)

// Sentinels, to be found with errors.Is in whatever a call returns.
var (
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("engine: store is closed")
	// ErrClosing: Close ran into its context; LOCK is kept until the last
	// kernel request ended.
	ErrClosing = errors.New("engine: store is closing, requests are still in flight")
	// ErrReadOnly: the store was opened read-only, or has become so.
	ErrReadOnly = errors.New("engine: store is read-only")
	// ErrLocked: another process owns the directory.
	ErrLocked = meta.ErrLocked
	// ErrNoStore: the directory holds no store, or there is no directory (then
	// fs.ErrNotExist too).
	ErrNoStore = meta.ErrNoStore
	// ErrUnsupported: the store was written by a newer version.
	ErrUnsupported = errors.New("engine: unsupported format")
	// ErrPathRefused: Options.Path names a path that a probe of the directory
	// did not prove; the message has the probe's reason.
	ErrPathRefused = errors.New("engine: path refused")
	// ErrDamaged: a file without which the store cannot be opened is damaged.
	ErrDamaged = errors.New("engine: store is damaged")
	// ErrCapacity: the capacity is below what the store needs.
	ErrCapacity = errors.New("engine: capacity too small")
	// ErrInvalid: an argument is malformed.
	ErrInvalid = errors.New("engine: invalid argument")
	// ErrLayoutMismatch: the layout differs from a stored one.
	ErrLayoutMismatch = errors.New("engine: layout mismatch")
	// ErrEpoch: the namespace's epoch has moved on.
	ErrEpoch = errors.New("engine: namespace handle is of an older epoch")
	// ErrShed: a bound was reached.
	ErrShed = errors.New("engine: shed")
	// ErrIndexFailed: the index failed or is wedged; the store answers misses.
	ErrIndexFailed = errors.New("engine: index failed")
	// ErrCorrupt: bytes did not verify.
	ErrCorrupt = errors.New("engine: corrupt")
	// ErrMiss: the block is not stored.
	ErrMiss = errors.New("engine: not stored")
)

// LayoutMismatchError tells which fields of a layout differ from the nearest
// stored one.
type LayoutMismatchError struct {
	Tenant      string
	Differences []layout.Difference // A is the stored value, B the one asked for
}

func (e *LayoutMismatchError) Error() string {
	s := fmt.Sprintf("engine: layout differs from the stored one of tenant %q in %d field(s)", e.Tenant, len(e.Differences))
	for _, d := range e.Differences {
		s += fmt.Sprintf("; %s: stored %s, asked %s", d.Field, d.A, d.B)
	}
	return s
}

// Is makes errors.Is(err, ErrLayoutMismatch) true.
func (e *LayoutMismatchError) Is(target error) bool { return target == ErrLayoutMismatch }

// BlockError is the detail behind a status that is not OK.
type BlockError struct {
	Status Status
	Hash   []byte
	File   string // file within the store, or ""
	Offset int64  // byte offset in File, or -1
	Reason string // what did not hold, and what to do where there is something
	Err    error  // cause, or nil
}

func (e *BlockError) Error() string {
	s := fmt.Sprintf("engine: block %x: %s", e.Hash, e.Status)
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	if e.File != "" {
		s += fmt.Sprintf(" (%s offset %d)", e.File, e.Offset)
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the cause.
func (e *BlockError) Unwrap() error { return e.Err }

// Is matches the sentinel of the status.
func (e *BlockError) Is(target error) bool {
	switch e.Status {
	case StatusMiss:
		return target == ErrMiss
	case StatusCorrupt:
		return target == ErrCorrupt
	case StatusShed:
		return target == ErrShed
	case StatusStaleEpoch:
		return target == ErrEpoch
	case StatusClosed:
		return target == ErrClosed
	case StatusInvalid, StatusTooLarge, StatusLengthMismatch:
		return target == ErrInvalid
	case StatusLayoutMismatch:
		return target == ErrLayoutMismatch
	}
	return false
}

func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
