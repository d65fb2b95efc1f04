//go:build !linux

package cputime

import "time"

// Process is not measured here; the figures that need it are 0.
func Process() time.Duration { return 0 }

// Thread is not measured here.
func Thread() (elapsed func() time.Duration) {
	return func() time.Duration { return 0 }
}
