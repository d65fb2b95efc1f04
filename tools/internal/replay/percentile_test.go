package replay

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestPercentile(t *testing.T) {
	us := func(n ...int) Latencies {
		var l Latencies
		for _, v := range n {
			l = append(l, time.Duration(v)*time.Microsecond)
		}
		return l
	}
	hundred := make([]int, 100)
	for i := range hundred {
		hundred[i] = 100 - i
	}
	for _, c := range []struct {
		name    string
		l       Latencies
		p, want float64
	}{
		{"none", nil, 50, 0},
		{"one", us(7), 50, 7},
		{"one", us(7), 99, 7},
		{"two, the lower half", us(9, 1), 50, 1},
		{"two, the tail", us(9, 1), 99, 9},
		{"hundred", us(hundred...), 50, 50},
		{"hundred", us(hundred...), 99, 99},
		{"hundred", us(hundred...), 100, 100},
		{"lowest", us(hundred...), 0, 1},
		{"rounded to a tenth", Latencies{1234567 * time.Nanosecond}, 50, 1234.6},
	} {
		if got := c.l.PercentileUS(c.p); got != c.want {
			t.Errorf("%s: p%v = %v, want %v", c.name, c.p, got, c.want)
		}
	}
}

// TestPercentileDefinition holds the definition: at least p percent of the
// samples do not exceed it, and no smaller sample has that property.
func TestPercentileDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ns := rapid.SliceOfN(rapid.IntRange(0, 50), 1, 60).Draw(t, "us")
		p := rapid.Float64Range(0.5, 100).Draw(t, "p")
		var l Latencies
		for _, n := range ns {
			l = append(l, time.Duration(n)*time.Microsecond)
		}
		got := l.PercentileUS(p)
		share := func(v float64) (below float64) {
			for _, n := range ns {
				if float64(n) <= v {
					below++
				}
			}
			return below / float64(len(ns)) * 100
		}
		if !slices.Contains(ns, int(got)) || share(got) < p-1e-9 || share(got-1) >= p+1e-9 {
			t.Fatalf("p%v of %v = %v", p, ns, got)
		}
	})
}
