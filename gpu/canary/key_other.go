//go:build !linux

package canary

import (
	"errors"

	"github.com/sealstone/sealstone/gpu"
)

func placeOf(string, *gpu.VerdictKey) error { return errors.ErrUnsupported }
