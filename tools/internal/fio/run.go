package fio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"time"
)

// stopTimeout is how long fio may take to go after it was told to.
const stopTimeout = 5 * time.Second

// Run runs one job to its end, or until ctx ends. The file of a read must be
// there and full; see Fill. That of a write is made anew: a store never
// overwrites a block either, and blocks that are written for the first time
// cost a file system more.
func (t *Tool) Run(ctx context.Context, j Job) (Result, error) {
	if err := j.Check(); err != nil {
		return Result{}, err
	}
	if j.Work == SequentialWrite {
		if err := os.Remove(j.File); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return Result{}, fmt.Errorf("fio: %w", err)
		}
	}
	cmd := exec.CommandContext(ctx, t.Path, j.arguments()...)
	cmd.WaitDelay = stopTimeout
	var out, errs limited
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return Result{}, fmt.Errorf("fio: %s with %s: %w: %s", j.Work, j.Engine, err, errs.line())
	}
	r, err := parse(out.buf.Bytes(), j.Work)
	if err != nil {
		return Result{}, fmt.Errorf("%w: %s", err, errs.line())
	}
	return r, nil
}

// limited keeps the first outputBytesMax bytes and takes the rest as read, so
// that a program that prints without end neither blocks nor fills memory.
type limited struct{ buf bytes.Buffer }

// Write implements io.Writer.
func (l *limited) Write(p []byte) (int, error) {
	l.buf.Write(p[:min(len(p), max(0, outputBytesMax-l.buf.Len()))])
	return len(p), nil
}

// line is the output in one line of bounded length.
func (l *limited) line() string {
	b := bytes.Join(bytes.Fields(l.buf.Bytes()), []byte(" "))
	return string(b[:min(len(b), 300)])
}
