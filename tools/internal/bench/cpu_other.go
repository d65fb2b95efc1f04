//go:build !unix

package bench

import "time"

// cpuTime is not measured here; the figures that need it are 0.
func cpuTime() time.Duration { return 0 }
