package load

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// Report is what a run came to.
type Report struct {
	Seconds     float64 `json:"seconds"`
	Connections int     `json:"connections"`
	Workers     int     `json:"workers"`
	Slow        int     `json:"slow"`
	Rude        int     `json:"rude"`
	Seed        uint64  `json:"seed"`
	// Commands are figures by command, a pipeline as one.
	Commands map[string]CommandReport `json:"commands"`
	// BytesRead and BytesWritten are of values.
	BytesRead    int64 `json:"bytes_read"`
	BytesWritten int64 `json:"bytes_written"`
	Values
	// Lost are values that were acknowledged, not removed since, and not
	// found: evicted, shed, or lost.
	Lost int64 `json:"lost"`
	// AfterExists are gets that found nothing although an EXISTS just before
	// had: these a server is to keep.
	AfterExists int64 `json:"missed_after_exists"`
	// Broken are connections that ended, Reconnects those made anew.
	Broken     int64 `json:"broken"`
	Reconnects int64 `json:"reconnects"`
	// RudeTold are rude connections that were told what is wrong and closed,
	// RudeGone those that vanished in the middle of a frame, RudeUntold those
	// that were treated otherwise.
	RudeTold   int64 `json:"rude_told"`
	RudeGone   int64 `json:"rude_gone"`
	RudeUntold int64 `json:"rude_untold"`
	// Examples are the first things that went wrong.
	Examples []string `json:"examples,omitempty"`
}

// Values counts the values that came back by what they were. All but Right are
// broken promises.
type Values struct {
	Right   int64 `json:"right"`
	Short   int64 `json:"short"`
	Foreign int64 `json:"foreign"`
	Stale   int64 `json:"stale"`
	Wrong   int64 `json:"wrong"`
}

// Bad is how many values were not what they had to be.
func (v Values) Bad() int64 { return v.Short + v.Foreign + v.Stale + v.Wrong }

// CommandReport are figures of one command. Latencies are from the first byte
// sent to the last byte read and looked at, in microseconds.
type CommandReport struct {
	Calls     int64   `json:"calls"`
	Missing   int64   `json:"missing"` // answers that there is nothing
	Errors    int64   `json:"errors"`  // error lines, and statuses that are neither ok nor a miss
	PerSecond float64 `json:"per_second"`
	P50US     int64   `json:"p50_us"`
	P99US     int64   `json:"p99_us"`
	P999US    int64   `json:"p999_us"`
	MaxUS     int64   `json:"max_us"`
}

// Print writes the report for people.
func (r *Report) Print(w io.Writer) {
	fmt.Fprintf(w, "%d connections, %d of them at work, %d slow, %d rude, for %.1f s\n\n", r.Connections, r.Workers, r.Slow, r.Rude, r.Seconds)
	fmt.Fprintf(w, "%-9s %9s %9s %7s %9s %9s %9s %9s\n", "command", "calls/s", "missing", "errors", "p50 us", "p99 us", "p99.9 us", "max us")
	for _, name := range slices.Sorted(maps.Keys(r.Commands)) {
		c := r.Commands[name]
		fmt.Fprintf(w, "%-9s %9.0f %9d %7d %9d %9d %9d %9d\n", name, c.PerSecond, c.Missing, c.Errors, c.P50US, c.P99US, c.P999US, c.MaxUS)
	}
	const mb = 1e6
	fmt.Fprintf(w, "\nread %.0f MB/s, written %.0f MB/s\n", float64(r.BytesRead)/mb/r.Seconds, float64(r.BytesWritten)/mb/r.Seconds)
	fmt.Fprintf(w, "values: %d right, %d of a wrong length, %d of another key, %d stale,\n  %d with wrong bytes\n", r.Right, r.Short, r.Foreign, r.Stale, r.Wrong)
	fmt.Fprintf(w, "not found: %d acknowledged, %d after EXISTS\nconnections: %d broken, %d made anew; rude ones: %d told, %d gone, %d not told\n",
		r.Lost, r.AfterExists, r.Broken, r.Reconnects, r.RudeTold, r.RudeGone, r.RudeUntold)
	for _, e := range r.Examples {
		fmt.Fprintln(w, "  "+e)
	}
}
