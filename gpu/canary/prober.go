package canary

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/sealstone/sealstone/gpu"
)

// Prober keeps the verdicts of a process. Its methods may be called from any
// goroutine; one canary runs at a time.
type Prober struct {
	o Options
}

// New checks the options. It starts nothing.
func New(o Options) (*Prober, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Prober{o: o}, nil
}

// Probe finds out whether files of dir can be read straight into the memory of
// the GPU of this UUID (GPU-…, as NVML prints it). A refusal is no error: the
// verdict says why. The error is that of ctx, or of a directory that cannot be
// named.
func (p *Prober) Probe(ctx context.Context, uuid, dir string) (gpu.Verdict, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return unknownVerdict(dir), err
	}
	if err := ctx.Err(); err != nil {
		return unknownVerdict(dir), context.Cause(ctx)
	}
	return unknownVerdict(dir), errors.ErrUnsupported
}

// Verdict is what is known of the pair, without a trial.
func (p *Prober) Verdict(uuid, dir string) gpu.Verdict { return unknownVerdict(dir) }
