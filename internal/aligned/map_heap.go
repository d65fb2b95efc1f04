//go:build !unix

package aligned

import "unsafe"

// mapMemory is a slice of the Go heap, larger than asked for and cut to the
// alignment; the heap does not move.
func mapMemory(sizeBytes int) ([]byte, error) {
	raw := make([]byte, sizeBytes+PageBytes)
	head := 0
	if over := int(uintptr(unsafe.Pointer(unsafe.SliceData(raw))) % PageBytes); over != 0 {
		head = PageBytes - over
	}
	return raw[head : head+sizeBytes : head+sizeBytes], nil
}

// unmapMemory leaves it to the garbage collector.
func unmapMemory([]byte) {}
