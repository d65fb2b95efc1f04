//go:build !linux

package bench

// dropCaches does nothing: see coldHow.
func dropCaches(string) error { return nil }
