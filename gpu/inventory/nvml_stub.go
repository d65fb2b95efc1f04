//go:build !cgo || !linux

package inventory

import "fmt"

// loadNVML refuses: go-nvml needs cgo, and the driver's library is looked for
// on Linux only.
func loadNVML(string) (walker, error) {
	return nil, &absent{fmt.Sprintf("this build cannot load NVML: it was made %s", stubWhy)}
}
