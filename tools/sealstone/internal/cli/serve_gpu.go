package cli

import (
	"context"
	"fmt"

	"github.com/sealstone/sealstone/gpu/canary"
	"github.com/sealstone/sealstone/tools/internal/web"
)

// serveGPUs looks for GPUs as "probe --gpu" does: which there are, and how
// blocks of dir would reach each. The server itself moves nothing to a GPU.
func (env *environment) serveGPUs(dir string) func(context.Context) web.GPUs {
	return func(ctx context.Context) web.GPUs {
		p := &gpuProbe{gpuEnvironment: env.gpu.withDefaults(), flags: probeFlags{timeout: canary.DefaultTimeout}, dir: dir}
		r, err := p.gather(ctx, func(int64, int64) {})
		if err != nil {
			return web.GPUs{State: "failed", Reason: oneLine(err.Error())}
		}
		return gpuStatus(r)
	}
}

func gpuStatus(r *gpuReport) web.GPUs {
	out := web.GPUs{State: "found"}
	if len(r.Pairs) == 0 {
		out.State, out.Reason = "none", oneLine(r.Driver.Reason)
		if out.Reason == "" {
			out.Reason = "the driver shows no GPU"
		}
	}
	for _, pair := range r.Pairs {
		name := pair.GPU
		if pair.Instance != "" {
			name = pair.Instance
		}
		reason := pair.Because
		if pair.Direct.Reason != "" && pair.Path != gpuPathCuFile {
			reason = fmt.Sprintf("%s: %s", reason, pair.Direct.Reason)
		}
		out.Pairs = append(out.Pairs, web.GPUPair{GPU: r.GPUs[pair.index].Name + " " + name, Path: string(pair.Path), Reason: oneLine(reason)})
	}
	return out
}
