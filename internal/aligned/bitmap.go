package aligned

import "math/bits"

// bitmap is a set of small numbers, of pages in a slab. Who uses it knows how
// many there are.
type bitmap []uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

// nextSet is the first member at from or above, at most n.
func (m bitmap) nextSet(from, n int) int { return m.next(from, n, 0) }

// nextClear is the first number at from or above that is no member, at most n.
func (m bitmap) nextClear(from, n int) int { return m.next(from, n, ^uint64(0)) }

// next finds the first bit that is set after flipping with flip, a word at a
// time.
func (m bitmap) next(from, n int, flip uint64) int {
	for from < n {
		if w := (m[from/64] ^ flip) >> (from % 64); w != 0 {
			return min(n, from+bits.TrailingZeros64(w))
		}
		from = (from/64 + 1) * 64
	}
	return n
}

// words calls do with each word that holds numbers of [from, to) and the mask
// of those numbers in it.
func (m bitmap) words(from, to int, do func(word *uint64, mask uint64)) {
	for from < to {
		end := min(to, (from/64+1)*64)
		mask := (^uint64(0) >> (64 - (end - from))) << (from % 64)
		do(&m[from/64], mask)
		from = end
	}
}

func (m bitmap) set(from, to int) {
	m.words(from, to, func(w *uint64, mask uint64) { *w |= mask })
}

func (m bitmap) clear(from, to int) {
	m.words(from, to, func(w *uint64, mask uint64) { *w &^= mask })
}

// count is how many of [from, to) are members.
func (m bitmap) count(from, to int) (n int) {
	m.words(from, to, func(w *uint64, mask uint64) { n += bits.OnesCount64(*w & mask) })
	return n
}

// has says whether one number is a member.
func (m bitmap) has(i int) bool { return m[i/64]>>(i%64)&1 == 1 }
