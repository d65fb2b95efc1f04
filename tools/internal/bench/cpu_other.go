//go:build !linux

package bench

import "time"

// processCPU is not measured here; the figures that need it are 0.
func processCPU() time.Duration { return 0 }

// threadCPU is not measured here.
func threadCPU() (elapsed func() time.Duration) {
	return func() time.Duration { return 0 }
}
