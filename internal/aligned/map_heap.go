//go:build !unix

package aligned

import (
	"errors"
	"unsafe"
)

// canReturn: only a whole slab can be left to the garbage collector.
const canReturn = false

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

func adviseSmall([]byte) {}

func adviseHuge([]byte) {}

func thpRefusal() string { return "huge pages are asked for on Linux only" }

func mapHugeTLB(int) ([]byte, error) { return nil, errors.ErrUnsupported }

// populate: the heap is there already.
func populate([]byte) (bool, error) { return true, nil }

func returnPages([]byte) error { return errors.ErrUnsupported }
