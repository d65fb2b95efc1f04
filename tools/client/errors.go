package client

import (
	"errors"
	"fmt"
	"strings"

	"github.com/sealstone/sealstone/engine"
)

var (
	// ErrUnreachable: there is no connection to the server, or it broke while a
	// call was under way.
	ErrUnreachable = errors.New("client: the server is not reached")
	// ErrProtocol: the server answered what it must not. The connection is
	// closed.
	ErrProtocol = errors.New("client: malformed answer")
	// ErrRegionLost: the server did not let go of the region within
	// Options.LingerMax, see there.
	ErrRegionLost = errors.New("client: region is lost, the server may still use it")
)

// ServerError is a refusal of a whole command.
type ServerError struct {
	Code string // "ERR", "NOAUTH", "WRONGPASS", "NOPERM", "BADHANDLE", "LIMIT"
	Text string // what and what to do
}

func (e *ServerError) Error() string { return "client: the server refused: " + e.Code + " " + e.Text }

// codeOf is the code of a refusal, or "".
func codeOf(err error) string {
	var refused *ServerError
	if errors.As(err, &refused) {
		return refused.Code
	}
	return ""
}

func serverError(line []byte) error {
	code, text, _ := strings.Cut(string(line), " ")
	return &ServerError{code, text}
}

func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, args...))
}

func unreachable(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrUnreachable, what, err)
}

// blockError is the error of a block that the server said nothing about.
func blockError(st engine.Status, hash []byte, err error) *engine.BlockError {
	return &engine.BlockError{Status: st, Hash: hash, Offset: -1, Err: err}
}

func invalid(hash []byte, format string, args ...any) *engine.BlockError {
	return &engine.BlockError{Status: engine.StatusInvalid, Hash: hash, Offset: -1, Reason: fmt.Sprintf(format, args...)}
}
