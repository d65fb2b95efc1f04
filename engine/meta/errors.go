package meta

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sealstone/sealstone/internal/vfs"
)

// Errors of this package, found by errors.Is.
var (
	// ErrNoStore: the directory holds no store; Create makes one.
	ErrNoStore = errors.New("meta: no store here")
	// ErrExists: Create in a directory that holds a store or parts of one.
	ErrExists = errors.New("meta: a store is here already")
	// ErrDamaged: no copy of a file can be used; see [DamagedError].
	ErrDamaged = errors.New("meta: damaged")
	// ErrUnsupported: written by a later program; see [UnsupportedError].
	ErrUnsupported = errors.New("meta: not supported by this version")
	// ErrPoisoned: Open could not bring back a copy that was lost or damaged;
	// nothing is written until the store is opened again.
	ErrPoisoned = errors.New("meta: a copy could not be healed, open the store again")
	// ErrReadOnly: a change was asked of a store that was opened read-only.
	ErrReadOnly = errors.New("meta: opened read-only")
	// ErrInvalid: an argument that cannot be.
	ErrInvalid = errors.New("meta: invalid argument")
	// ErrNoNamespace: no namespace has this number.
	ErrNoNamespace = errors.New("meta: no such namespace")
	// ErrFull: NAMESPACES has reached its limit, or numbers have run out.
	ErrFull = errors.New("meta: limit reached")
	// ErrLocked: another owner has the store open; see [LockedError].
	ErrLocked = vfs.ErrLocked
)

// Finding is something about a copy that Open noticed.
type Finding struct {
	File    string
	Problem string
	Healed  bool // replaced by the good copy
	err     error
}

func (f Finding) String() string {
	if f.Healed {
		return f.File + ": " + f.Problem + " (healed from the other copy)"
	}
	return f.File + ": " + f.Problem
}

// DamagedError says what is wrong with each copy, and what to do.
type DamagedError struct {
	Findings []Finding
	Advice   string
}

func (e *DamagedError) Error() string {
	parts := make([]string, len(e.Findings))
	for i, f := range e.Findings {
		parts[i] = f.String()
	}
	return fmt.Sprintf("%v: %s: %s", ErrDamaged, strings.Join(parts, "; "), e.Advice)
}

// Unwrap makes errors.Is hold for ErrDamaged and for the I/O errors behind it.
func (e *DamagedError) Unwrap() []error {
	errs := []error{ErrDamaged}
	for _, f := range e.Findings {
		if f.err != nil {
			errs = append(errs, f.err)
		}
	}
	return errs
}

// UnsupportedError names the version or the feature bits that this program
// does not know.
type UnsupportedError struct {
	File     string
	Version  uint16 // of the file
	Incompat uint32 // unknown bits that forbid opening
	ROCompat uint32 // unknown bits that forbid writing
	// unproven: the sum is not one of this version; both copies say the same.
	unproven bool
}

func (e *UnsupportedError) Error() string {
	do := "use the program that wrote it"
	if e.unproven {
		do += " (no sum proves what it says, but both copies agree)"
	}
	switch {
	case e.Version != FormatVersion:
		return fmt.Sprintf("%v: %s has version %d, known is %d: %s", ErrUnsupported, e.File, e.Version, FormatVersion, do)
	case e.Incompat != 0:
		return fmt.Sprintf("%v: %s needs features %#x: %s", ErrUnsupported, e.File, e.Incompat, do)
	}
	return fmt.Sprintf("%v: %s needs features %#x for writing: open it read-only, or use the program that wrote it",
		ErrUnsupported, e.File, e.ROCompat)
}

// Unwrap makes errors.Is(err, ErrUnsupported) hold.
func (e *UnsupportedError) Unwrap() error { return ErrUnsupported }
