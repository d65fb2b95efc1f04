//go:build !unix

package disk

// errnoName is "": the system's errors have no names of that kind.
func errnoName(error) string { return "" }
