package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sealstone/sealstone/engine/meta"
)

// The exit statuses of all commands.
const (
	exitOK      = 0
	exitError   = 1 // the command failed, was misused, or a promise is broken
	exitDamaged = 2 // the store is readable and damage was found in it
	exitLocked  = 3 // another process owns the store
)

const exitHelp = `EXIT STATUS
  0  done, nothing found wrong
  1  error, wrong usage, or a broken promise
  2  damage found in the store
  3  the store is in use by another process`

// exitStatus is an error that was reported already and only decides the
// status of the process.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// finish reports err in one line and returns the exit status.
func finish(err error, stderr io.Writer) int {
	var status exitStatus
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &status):
		return int(status)
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(stderr, "sealstone: interrupted")
		return exitError
	}
	fmt.Fprintln(stderr, "sealstone: "+oneLine(err.Error()))
	if errors.Is(err, meta.ErrLocked) {
		return exitLocked
	}
	return exitError
}

// oneLine keeps an error on one line, so that a line of a log is an error.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
