package layout

import (
	"errors"
	"fmt"
	"strings"
)

// Errors of this package, found by errors.Is.
var (
	// ErrMissingField: required fields were left out; see [MissingError].
	ErrMissingField = errors.New("layout: required field left out")
	// ErrInvalid: a field has a value that it cannot have; see [InvalidError].
	ErrInvalid = errors.New("layout: invalid value")
	// ErrEncoding: bytes that are no canonical encoding of a layout.
	ErrEncoding = errors.New("layout: not a canonical encoding")
	// ErrUnsupported: an encoding with a field or version of a later program.
	ErrUnsupported = errors.New("layout: encoding of a later version")
	// ErrPlanes: the planes of a block are not those of its layout.
	ErrPlanes = errors.New("layout: block planes differ from the layout")
)

// MissingError lists every required field that was left out.
type MissingError struct {
	Fields []string // names as in JSON, in the order of the encoding
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("%v: %s (a default could be wrong on one side; say %q where there is none)",
		ErrMissingField, strings.Join(e.Fields, ", "), None)
}

// Unwrap makes errors.Is(err, ErrMissingField) hold.
func (e *MissingError) Unwrap() error { return ErrMissingField }

// Problem is what is wrong with one field.
type Problem struct {
	Field string
	Text  string
}

// InvalidError lists every field with a value that it cannot have.
type InvalidError struct {
	Problems []Problem
}

func (e *InvalidError) Error() string {
	parts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		parts[i] = p.Field + ": " + p.Text
	}
	return fmt.Sprintf("%v: %s", ErrInvalid, strings.Join(parts, "; "))
}

// Unwrap makes errors.Is(err, ErrInvalid) hold.
func (e *InvalidError) Unwrap() error { return ErrInvalid }
