package main

import (
	"fmt"
	"io"
	"slices"
)

// print writes a table: medians over the rounds, of MB/s the least and most too.
func print(w io.Writer, all []sample) {
	type row struct {
		server, phase      string
		bytes, connections int
	}
	var rows []row
	by := map[row][]sample{}
	for _, s := range all {
		r := row{s.Server, s.Phase, s.ValueBytes, s.Connections}
		if by[r] == nil {
			rows = append(rows, r)
		}
		by[r] = append(by[r], s)
	}
	slices.SortStableFunc(rows, func(a, b row) int {
		if a.bytes != b.bytes {
			return b.bytes - a.bytes
		}
		if a.phase != b.phase {
			return len(b.phase) - len(a.phase)
		}
		return a.connections - b.connections
	})
	fmt.Fprintln(w, "| value | | connections | server | MB/s | per second | p50 us | p99 us | CPU s/GiB | missing |")
	fmt.Fprintln(w, "|---|---|---|---|---|---|---|---|---|---|")
	for _, r := range rows {
		of := func(f func(sample) float64) []float64 {
			var v []float64
			for _, s := range by[r] {
				v = append(v, f(s))
			}
			slices.Sort(v)
			return v
		}
		mb := of(func(s sample) float64 { return s.MBPerSecond })
		fmt.Fprintf(w, "| %d | %s | %d | %s | %.0f (%.0f-%.0f) | %.0f | %.0f | %.0f | %.2f | %.0f |\n",
			r.bytes, r.phase, r.connections, r.server, median(mb), mb[0], mb[len(mb)-1],
			median(of(func(s sample) float64 { return s.PerSecond })),
			median(of(func(s sample) float64 { return s.P50US })),
			median(of(func(s sample) float64 { return s.P99US })),
			median(of(func(s sample) float64 { return s.CPUPerGiB })),
			median(of(func(s sample) float64 { return float64(s.Missing) })))
	}
}

func median(sorted []float64) float64 {
	n := len(sorted)
	if n%2 == 1 {
		return sorted[n/2]
	}
	return (sorted[n/2-1] + sorted[n/2]) / 2
}
