package check

import (
	"context"
	"errors"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/canary"
)

// CanaryChild is the argument that makes the program the child of a canary.
const CanaryChild = "gpu-canary"

// askCanary has the direct path from dir to a GPU tried. A refusal is a result
// and makes no step fail.
func askCanary(ctx context.Context, c Config, uuid, dir string) (*gpu.Verdict, error) {
	if len(c.Self) == 0 {
		return nil, errors.New("no program for the child")
	}
	o := canary.Options{
		Program:  append(append([]string(nil), c.Self...), CanaryChild),
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
