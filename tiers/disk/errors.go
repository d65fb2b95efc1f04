package disk

import (
	"errors"
	"fmt"
	"strings"
)

// The sentinels that errors of this package wrap; test with errors.Is.
var (
	// ErrCorrupt: bytes on disk are not what was written there. The error is
	// a *CorruptError. A block with such bytes is a miss.
	ErrCorrupt = errors.New("disk: corrupt")
	// ErrUnsupported: bytes are sound and were written by a release that
	// knows more. The error is an *UnsupportedError. Nothing is guessed.
	ErrUnsupported = errors.New("disk: unsupported format")
	// ErrInvalid: the caller passed something that the format cannot hold.
	ErrInvalid = errors.New("disk: invalid argument")
)

// The reasons of a CorruptError that callers tell apart.
const (
	// ReasonShort: the bytes end before the artifact does.
	ReasonShort = "cut short"
	// ReasonMagic: there is no such artifact here.
	ReasonMagic = "no magic"
	// ReasonSum: the keyed sum does not match: rot, a torn write, or bytes
	// of another store.
	ReasonSum = "sum mismatch"
	// ReasonStale: a sound artifact, though not the one that was expected
	// here: an older write, or one that belongs elsewhere.
	ReasonStale = "sound, but not the expected one"
	// ReasonPlace: the artifact names another store, segment or page than
	// the one it was read from.
	ReasonPlace = "belongs elsewhere"
	// ReasonField: a field is out of its range, or padding is not zero.
	ReasonField = "field out of range"
)

// CorruptError says which artifact is damaged, where, and how that shows.
type CorruptError struct {
	What    string // the artifact: "extent header", "tombstone", ...
	File    string // the file's name; empty where the codec was not told
	Segment uint64 // the segment's id; 0 where it is not known
	Offset  int64  // byte offset in the file, or in the bytes given where the place is not known
	Reason  string // one of the Reason constants
	Err     error  // details; may be nil
}

// Error implements error.
func (e *CorruptError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "disk: read %s", e.What)
	if e.File != "" {
		fmt.Fprintf(&b, " of %s", e.File)
	}
	fmt.Fprintf(&b, " (segment %016x, offset %d): corrupt: %s", e.Segment, e.Offset, e.Reason)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap returns the details.
func (e *CorruptError) Unwrap() error { return e.Err }

// Is reports whether target is ErrCorrupt.
func (e *CorruptError) Is(target error) bool { return target == ErrCorrupt }

// UnsupportedError says what a newer release wrote that this one does not
// know. The artifact's sum was valid: it is no damage.
type UnsupportedError struct {
	What    string // the artifact
	Version uint16 // its version
	Bits    uint32 // its unknown incompatible feature bits; 0 for a matter of version or value
	Detail  string // the unknown value, where it is one; may be empty
}

// Error implements error.
func (e *UnsupportedError) Error() string {
	switch {
	case e.Bits != 0:
		return fmt.Sprintf("disk: read %s: unsupported incompatible feature bits %#x: open the store with a newer release", e.What, e.Bits)
	case e.Detail != "":
		return fmt.Sprintf("disk: read %s: unsupported %s: open the store with a newer release", e.What, e.Detail)
	}
	return fmt.Sprintf("disk: read %s: unsupported version %d: open the store with a newer release", e.What, e.Version)
}

// Is reports whether target is ErrUnsupported.
func (e *UnsupportedError) Is(target error) bool { return target == ErrUnsupported }

// invalidf returns an error that wraps ErrInvalid.
func invalidf(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}
