//go:build unix

package aligned

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// canReturn: pages can be given back while their addresses stay.
const canReturn = true

// mapMemory maps sizeBytes, a multiple of unitBytes, of zeros. Large mappings are placed
// on a huge page's boundary, for which the kernel does not care by itself
// before Linux 6.7: more is mapped, and the edges are given back.
func mapMemory(sizeBytes int) ([]byte, error) {
	align := unitBytes
	if sizeBytes >= HugePageBytes {
		align = HugePageBytes
	}
	want := sizeBytes
	if align > unix.Getpagesize() {
		want += align
	}
	base, err := unix.MmapPtr(-1, 0, nil, uintptr(want),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	head := 0
	if over := int(uintptr(base) % uintptr(align)); over != 0 {
		head = align - over
	}
	start := unsafe.Add(base, head)
	if head > 0 {
		_ = unix.MunmapPtr(base, uintptr(head))
	}
	if tail := want - head - sizeBytes; tail > 0 {
		_ = unix.MunmapPtr(unsafe.Add(start, sizeBytes), uintptr(tail))
	}
	mem := unsafe.Slice((*byte)(start), sizeBytes)
	if align == HugePageBytes {
		adviseHuge(mem)
	}
	return mem, nil
}

// unmapMemory ends a mapping. It cannot fail on a whole mapping of ours, and
// nothing could be done about it.
func unmapMemory(mem []byte) {
	_ = unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(mem)), uintptr(cap(mem)))
}
