package core

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/tools/client"
)

// Status is an outcome as sealstone.h numbers it: those of the engine, and
// those of calls.
type Status int32

// The statuses that calls know besides the engine's. The header has the words.
const (
	OK          = Status(engine.StatusOK)
	Miss        = Status(engine.StatusMiss)
	Timeout     = Status(engine.StatusTimeout)
	Shed        = Status(engine.StatusShed)
	StaleEpoch  = Status(engine.StatusStaleEpoch)
	Closed      = Status(engine.StatusClosed)
	Invalid     = Status(engine.StatusInvalid)
	IOError     = Status(engine.StatusIOError)
	BadHandle   = Status(32)
	Forked      = Status(33)
	Internal    = Status(34)
	Locked      = Status(35)
	NoStore     = Status(36)
	Unsupported = Status(37)
	Damaged     = Status(38)
	Capacity    = Status(39)
	PathRefused = Status(40)
	Closing     = Status(41)
	TooSmall    = Status(42)
	ReadOnly    = Status(43)
	Unavailable = Status(44)
	Denied      = Status(45)
)

// Error is a failed call: its status, and a line that says what, where and what
// to do.
type Error struct {
	Status Status
	Text   string
}

func (e *Error) Error() string { return e.Text }

func failf(st Status, format string, args ...any) *Error {
	return &Error{st, fmt.Sprintf(format, args...)}
}

var errBadHandle = &Error{BadHandle, "no such handle: it was closed, belongs to another store, or never was"}

// sentinels are the engine's errors in the order in which they are tried: the
// more exact first, as one error may match several.
var sentinels = []struct {
	err    error
	status Status
}{
	{engine.ErrLocked, Locked},
	{engine.ErrNoStore, NoStore},
	{engine.ErrUnsupported, Unsupported},
	{engine.ErrPathRefused, PathRefused},
	{engine.ErrCapacity, Capacity},
	{engine.ErrLayoutMismatch, Status(engine.StatusLayoutMismatch)},
	{engine.ErrInvalid, Invalid},
	{layout.ErrMissingField, Invalid},
	{layout.ErrInvalid, Invalid},
	{engine.ErrEpoch, StaleEpoch},
	{engine.ErrClosing, Closing},
	{engine.ErrClosed, Closed},
	{engine.ErrReadOnly, ReadOnly},
	{engine.ErrShed, Shed},
	{engine.ErrDamaged, Damaged},
	{engine.ErrMiss, Miss},
	{errors.ErrUnsupported, Unsupported},
	{client.ErrUnreachable, Unavailable},
	{context.DeadlineExceeded, Timeout},
	{context.Canceled, Timeout},
}

// refusals are the codes with which a server refuses a whole command.
var refusals = map[string]Status{
	"NOAUTH": Denied, "WRONGPASS": Denied, "NOPERM": Denied, "LIMIT": Shed,
}

// callError makes the failure of a call out of an error of the engine. What is
// not known is the device's: IOError.
func callError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	for _, s := range sentinels {
		if errors.Is(err, s.err) {
			return &Error{s.status, err.Error()}
		}
	}
	var refused *client.ServerError
	if errors.As(err, &refused) {
		if st, ok := refusals[refused.Code]; ok {
			return &Error{st, err.Error()}
		}
	}
	return &Error{IOError, err.Error()}
}
