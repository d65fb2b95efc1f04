package wal

import (
	"errors"
	"fmt"
)

// Sentinels; the typed errors below match them with errors.Is.
var (
	// ErrCorrupt: bytes that were durable are bad now. See CorruptionError.
	ErrCorrupt = errors.New("wal: log is corrupt")
	// ErrUnsupported: the files were written by a newer version. See
	// UnsupportedError.
	ErrUnsupported = errors.New("wal: format not supported by this version")
	// ErrPoisoned: a write or a sync failed before; the log takes nothing
	// more. See PoisonedError.
	ErrPoisoned = errors.New("wal: log is poisoned by an earlier failure")
	// ErrClosed: the log was closed.
	ErrClosed = errors.New("wal: log is closed")
	// ErrTooLarge: a record above MaxRecordBytes, or a group that does not
	// fit in one file.
	ErrTooLarge = errors.New("wal: too large for the log")
	// ErrEmpty: a record without bytes, or a group without records.
	ErrEmpty = errors.New("wal: empty record or group")
	// ErrInvalidOptions: Options out of range.
	ErrInvalidOptions = errors.New("wal: invalid options")
)

// CorruptionError says where durable bytes of the log are bad. Everything
// below LSN was delivered; from LSN on nothing of this log can be trusted.
type CorruptionError struct {
	File   string // path within the file system
	Offset int64  // where in the file it was noticed
	LSN    LSN    // start of the first group lost
	Reason string
}

func (e *CorruptionError) Error() string {
	return fmt.Sprintf("wal: %s is corrupt at offset %d (LSN %d): %s; keep a copy, then rebuild what the log fed",
		e.File, e.Offset, uint64(e.LSN), e.Reason)
}

// Is matches ErrCorrupt.
func (e *CorruptionError) Is(target error) bool { return target == ErrCorrupt }

// UnsupportedError names what a file needs and this version has not.
type UnsupportedError struct {
	File     string
	Version  uint32 // the file's; zero when the version is known
	Incompat uint64 // unknown bits that forbid reading
	ROCompat uint64 // unknown bits that forbid writing
}

func (e *UnsupportedError) Error() string {
	switch {
	case e.Version != 0:
		return fmt.Sprintf("wal: %s has format version %d, this program knows %d; use a newer program", e.File, e.Version, FormatVersion)
	case e.Incompat != 0:
		return fmt.Sprintf("wal: %s needs unknown features (incompat bits %#x); use a newer program", e.File, e.Incompat)
	default:
		return fmt.Sprintf("wal: %s may only be read by this program (unknown ro-compat bits %#x); use a newer program to write", e.File, e.ROCompat)
	}
}

// Is matches ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// PoisonedError is what every call returns from the first failed write or
// sync on. Cause is that failure. What was appended after the last good Sync
// may or may not be on disk; nothing is ever retried on the same file. Start
// a new log with Create.
type PoisonedError struct {
	Op    string // what failed: "write", "sync", "rotate", "remove"
	File  string
	Cause error
}

func (e *PoisonedError) Error() string {
	return fmt.Sprintf("wal: log is poisoned: %s of %s failed: %v; start a new log", e.Op, e.File, e.Cause)
}

// Is matches ErrPoisoned.
func (e *PoisonedError) Is(target error) bool { return target == ErrPoisoned }

// Unwrap gives the cause.
func (e *PoisonedError) Unwrap() error { return e.Cause }
