package trace

import (
	"errors"
	"fmt"
)

// ErrFormat: the input is not a trace, or is cut or damaged.
var ErrFormat = errors.New("trace: not a readable trace")

// FormatError says where a trace could not be read and why.
type FormatError struct {
	File   string
	Line   int   // 1-based line, or 0 if the whole file is meant
	Offset int64 // byte offset in the file, or -1
	Reason string
	Err    error // cause, or nil
}

func (e *FormatError) Error() string {
	s := "trace: " + e.File
	if e.Line > 0 {
		s += fmt.Sprintf(": line %d", e.Line)
	}
	if e.Offset >= 0 {
		s += fmt.Sprintf(" (byte %d)", e.Offset)
	}
	s += ": " + e.Reason
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the cause.
func (e *FormatError) Unwrap() error { return e.Err }

// Is makes errors.Is(err, ErrFormat) true.
func (e *FormatError) Is(target error) bool { return target == ErrFormat }
