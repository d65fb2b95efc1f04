package check

import (
	"context"
	"errors"
	"slices"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/canary"
)

// askCanary has the direct path from dir to a GPU tried. A refusal is a result
// and makes no step fail.
func askCanary(ctx context.Context, c Config, uuid, dir string) (*gpu.Verdict, error) {
	if len(c.Self) == 0 {
		return nil, errors.New("no program for the child")
	}
	o := canary.Options{
		Program:  append(slices.Clone(c.Self), canary.ChildCommand),
		CUDAPath: c.Libraries.CUDAPath, CuFilePath: c.Libraries.CuFilePath, Fresh: true,
	}
	if c.DirectInVM {
		o.Allow = []canary.Pair{{GPU: uuid, Dir: dir}}
	}
	p, err := canary.New(o)
	if err != nil {
		return nil, err
	}
	v, err := p.Probe(ctx, uuid, dir)
	if err != nil {
		return nil, err
	}
	return &v, nil
}
