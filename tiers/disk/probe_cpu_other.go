//go:build !unix

package disk

import "time"

// processCPU is 0: there is no rusage here.
func processCPU() time.Duration { return 0 }
