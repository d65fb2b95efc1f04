package server

import "errors"

var (
	// ErrOptions: an option is out of range.
	ErrOptions = errors.New("server: invalid option")
	// ErrClosed: the server was shut down.
	ErrClosed = errors.New("server: shut down")
)
