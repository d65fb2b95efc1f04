package gpu

import (
	"testing"

	"pgregory.net/rapid"
)

// TestArenaModel compares an arena with an array of who has which unit.
func TestArenaModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.Int64Range(1, 64).Draw(t, "size")
		a := newArena(size)
		owner := make([]int, size) // 0: free
		type run struct{ off, n int64 }
		held := map[int]run{}
		next := 0
		longest := func() (best int64) {
			at := int64(0)
			for _, o := range owner {
				if at++; o != 0 {
					at = 0
				}
				best = max(best, at)
			}
			return best
		}
		t.Repeat(map[string]func(*rapid.T){
			"take": func(t *rapid.T) {
				n := rapid.Int64Range(1, size).Draw(t, "n")
				off, ok := a.take(n)
				if want := longest() >= n; ok != want {
					t.Fatalf("take(%d) = %v, the longest gap is %d", n, ok, longest())
				}
				if !ok {
					return
				}
				next++
				held[next] = run{off, n}
				for i := off; i < off+n; i++ {
					if owner[i] != 0 {
						t.Fatalf("take(%d) = %d, but unit %d is taken", n, off, i)
					}
					owner[i] = next
				}
			},
			"give": func(t *rapid.T) {
				if len(held) == 0 {
					return
				}
				var ids []int
				for id := 1; id <= next; id++ {
					if _, ok := held[id]; ok {
						ids = append(ids, id)
					}
				}
				id := rapid.SampledFrom(ids).Draw(t, "id")
				r := held[id]
				delete(held, id)
				a.give(r.off, r.n)
				clear(owner[r.off : r.off+r.n])
			},
			"": func(t *rapid.T) {
				if a.unused() != (len(held) == 0) {
					t.Fatalf("unused is %v with %d runs held", a.unused(), len(held))
				}
				for i, g := range a.free {
					if g.length <= 0 || i > 0 && a.free[i-1].off+a.free[i-1].length >= g.off {
						t.Fatalf("gaps %v are empty, unsorted or adjacent", a.free)
					}
				}
			},
		})
	})
}
