//go:build !linux

package canary

import (
	"context"
	"errors"

	"github.com/sealstone/sealstone/gpu"
)

// askChild is never reached: no driver opens on other systems.
func (p *Prober) askChild(_ context.Context, _ request, v gpu.Verdict) gpu.Verdict {
	return refuse(v, failed("start the child", errors.ErrUnsupported))
}
