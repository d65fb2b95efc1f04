package aligned

import "math/bits"

// hugePages is a huge page in units.
var hugePages = max(1, HugePageBytes/unitBytes)

// classPages rounds a size up to whole units, and above 16 of them to one of
// eight steps per power of two: at most an eighth more than asked for. Blocks
// of a power of two with a header page or two are the common case, and take
// 9/8 of the power. The steps keep the number of different sizes small, so
// that the room which a buffer leaves behind fits the next one.
func classPages(sizeBytes int) int {
	pages := (sizeBytes + unitBytes - 1) / unitBytes
	shift := max(0, bits.Len(uint(pages-1))-4)
	return (pages + 1<<shift - 1) >> shift << shift
}

// classAlign is what a class is aligned to, in units: the largest power of
// two that divides it, up to a huge page. So buffers of one class lie side by
// side without gaps. A coarser alignment would buy nothing, as the slab around
// them is made of huge pages, and would leave up to half of it unused.
func classAlign(pages int) int {
	return min(1<<bits.TrailingZeros(uint(pages)), hugePages)
}
