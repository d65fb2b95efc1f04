//go:build unix && !linux

package aligned

// adviseHuge does nothing where there is no such advice.
func adviseHuge([]byte) {}
