package aligned

import (
	"testing"

	"pgregory.net/rapid"
)

// TestBitmapModel compares a bitmap with a slice of booleans.
func TestBitmapModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		m, want := newBitmap(n), make([]bool, n)
		pair := func(t *rapid.T) (from, to int) {
			from = rapid.IntRange(0, n).Draw(t, "from")
			return from, rapid.IntRange(from, n).Draw(t, "to")
		}
		next := func(from int, member bool) int {
			for from < n && want[from] != member {
				from++
			}
			return from
		}
		t.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				from, to := pair(t)
				m.set(from, to)
				for i := from; i < to; i++ {
					want[i] = true
				}
			},
			"clear": func(t *rapid.T) {
				from, to := pair(t)
				m.clear(from, to)
				clear(want[from:to])
			},
			"": func(t *rapid.T) {
				from, to := pair(t)
				if got := m.nextSet(from, n); got != next(from, true) {
					t.Fatalf("nextSet(%d) = %d, want %d", from, got, next(from, true))
				}
				if got := m.nextClear(from, n); got != next(from, false) {
					t.Fatalf("nextClear(%d) = %d, want %d", from, got, next(from, false))
				}
				count := 0
				for i, member := range want {
					if m.has(i) != member {
						t.Fatalf("has(%d) = %v", i, m.has(i))
					}
					if member && i >= from && i < to {
						count++
					}
				}
				if got := m.count(from, to); got != count {
					t.Fatalf("count(%d, %d) = %d, want %d", from, to, got, count)
				}
			},
		})
	})
}
