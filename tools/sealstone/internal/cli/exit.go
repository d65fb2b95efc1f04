package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/meta"
)

// The exit statuses of all commands. This table, exitHelp, and the one in
// README.md say the same; a test compares them.
const (
	exitOK          = 0
	exitError       = 1   // the command failed, or a promise is broken
	exitDamaged     = 2   // the work is done and damage was found, however it ended
	exitLocked      = 3   // another process owns the store
	exitUsage       = 4   // the command line is wrong; nothing was done
	exitDifferent   = 5   // what was compared differs
	exitUnsupported = 6   // the store is of a format that this build does not know
	exitInterrupted = 130 // a signal ended it early; as shells report SIGINT
)

const exitHelp = `EXIT STATUS
  0    done, nothing found wrong
  1    error, or a broken promise
  2    damage found in the store (also if the work was then interrupted)
  3    the store is in use by another process
  4    wrong usage; nothing was done
  5    what was compared differs
  6    the store is of a format that this build does not know
  130  interrupted; what is done is reported, and the command can be repeated`

// exitStatus is an error that was reported already and only decides the
// status of the process.
type exitStatus int

func (e exitStatus) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// errUsage marks errors of the command line.
var errUsage = errors.New("wrong usage")

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
		return exitInterrupted
	}
	fmt.Fprintln(stderr, "sealstone: "+oneLine(err.Error()))
	return statusOf(err)
}

// statusOf is the status of a command that failed. A store that was found too
// damaged to be opened is damage found.
func statusOf(err error) int {
	switch {
	case errors.Is(err, errUsage):
		return exitUsage
	case errors.Is(err, meta.ErrLocked):
		return exitLocked
	case errors.Is(err, engine.ErrUnsupported):
		return exitUnsupported
	case errors.Is(err, engine.ErrDamaged), errors.Is(err, engine.ErrCorrupt):
		return exitDamaged
	}
	return exitError
}

// oneLine keeps an error on one line, so that a line of a log is an error.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
