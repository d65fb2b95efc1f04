package fio

import (
	"context"
	"errors"
)

// Fill writes the file of a job with bytes that no device can shorten: fio
// takes random buffers and changes a part of each before it writes it. Blocks
// that were never written would read as zeros, without any I/O.
func (t *Tool) Fill(ctx context.Context, j Job) error {
	w := j
	w.Work, w.Engine, w.Jobs, w.Depth = SequentialWrite, EnginePsync, 1, 1
	w.Runtime, w.RuntimeMax = 0, 0
	_, err := t.Run(ctx, w)
	if err != nil && !w.Buffered && ctx.Err() == nil {
		// No direct I/O here; the runs that follow will say so themselves.
		w.Buffered = true
		if _, again := t.Run(ctx, w); again != nil {
			return errors.Join(err, again)
		}
		return nil
	}
	return err
}
