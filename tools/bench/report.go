package main

import (
	"fmt"
	"io"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"text/tabwriter"
)

// report is what was measured; figures are medians over the rounds.
type report struct {
	work
	Rounds int      `json:"rounds"`
	CPUs   int      `json:"cpus"`
	Go     string   `json:"go"`
	Fsync  string   `json:"fsync"`
	Stores []result `json:"stores"`
}

// fsync is what all have in common, as far as they can.
const fsync = "all is durable at the end of the write phase, in its time; before that each store syncs as its settings say"

// figure is a median with the least and the most.
type figure struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// result is one store.
type result struct {
	Store    string `json:"store"`
	Version  string `json:"version"`
	Settings string `json:"settings"`
	Verified string `json:"verified"` // at a read

	WriteMiBPerSecond  figure `json:"write_mib_s"`
	ReadMiBPerSecond   figure `json:"read_mib_s"`
	WriteCPUPerGiB     figure `json:"write_cpu_seconds_per_gib"`
	ReadCPUPerGiB      figure `json:"read_cpu_seconds_per_gib"`
	ReopenMilliseconds figure `json:"reopen_ms"` // after SIGKILL, with a first get
	DiskBytesPerByte   figure `json:"disk_bytes_per_byte"`
	// RSS is the most memory in RAM beyond the buffers of the calls, pages of
	// mapped files included.
	WriteRSSMiB figure `json:"write_rss_mib"`
	ReadRSSMiB  figure `json:"read_rss_mib"`
	WrongBlocks int64  `json:"wrong_blocks"`
}

func newReport(c config, results [][]round) report {
	r := report{work: c.work, Rounds: c.rounds, CPUs: runtime.GOMAXPROCS(0), Go: runtime.Version(), Fsync: fsync}
	versions := moduleVersions()
	for i, s := range c.stores {
		r.Stores = append(r.Stores, summarise(s, versions, c.work, results[i]))
	}
	return r
}

func summarise(s contender, versions map[string]string, w work, rounds []round) result {
	mib, gib := float64(w.bytes())/(1<<20), float64(w.bytes())/(1<<30)
	r := result{
		Store: s.name, Version: versions[s.module], Settings: s.settings, Verified: s.verified,
		WriteMiBPerSecond:  of(rounds, func(r round) float64 { return mib / r.write.Wall.Seconds() }),
		ReadMiBPerSecond:   of(rounds, func(r round) float64 { return mib / r.read.Wall.Seconds() }),
		WriteCPUPerGiB:     of(rounds, func(r round) float64 { return r.write.CPU.Seconds() / gib }),
		ReadCPUPerGiB:      of(rounds, func(r round) float64 { return r.read.CPU.Seconds() / gib }),
		ReopenMilliseconds: of(rounds, func(r round) float64 { return float64(r.reopen.Open.Microseconds()) / 1e3 }),
		DiskBytesPerByte:   of(rounds, func(r round) float64 { return float64(r.diskBytes) / float64(w.bytes()) }),
		WriteRSSMiB:        of(rounds, func(r round) float64 { return float64(r.write.RSSBytes) / (1 << 20) }),
		ReadRSSMiB:         of(rounds, func(r round) float64 { return float64(r.read.RSSBytes) / (1 << 20) }),
	}
	for _, n := range rounds {
		r.WrongBlocks += n.read.Wrong
	}
	return r
}

// of is a figure over the rounds, to four digits behind the point.
func of(rounds []round, value func(round) float64) figure {
	if len(rounds) == 0 {
		return figure{}
	}
	v := make([]float64, len(rounds))
	for i, r := range rounds {
		v[i] = math.Round(value(r)*1e4) / 1e4
	}
	slices.Sort(v)
	mid := v[len(v)/2]
	if len(v)%2 == 0 {
		mid = (mid + v[len(v)/2-1]) / 2
	}
	return figure{mid, v[0], v[len(v)-1]}
}

// moduleVersions are those that this program was built with.
func moduleVersions() map[string]string {
	versions := map[string]string{"": runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return versions
	}
	for _, m := range info.Deps {
		versions[m.Path] = m.Version
		if m.Replace != nil {
			versions[m.Path] = "this repository"
		}
	}
	return versions
}

func (r report) print(w io.Writer) {
	fmt.Fprintf(w, "%d blocks of %d KiB, %d a call, %d calls at a time; medians of %d rounds\n\n",
		r.Blocks, r.BlockBytes>>10, r.BatchBlocks, r.Calls, r.Rounds)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "\twrite\tread\treopen\tdisk per\tCPU s/GiB\t\tRSS MiB\t\t")
	fmt.Fprintln(t, "store\tMiB/s\tMiB/s\tms\tbyte\twrite\tread\twrite\tread\t")
	for _, s := range r.Stores {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\t%.1f\t%.3f\t%.3f\t%.3f\t%.0f\t%.0f\t\n", s.Store,
			s.WriteMiBPerSecond.Median, s.ReadMiBPerSecond.Median, s.ReopenMilliseconds.Median, s.DiskBytesPerByte.Median,
			s.WriteCPUPerGiB.Median, s.ReadCPUPerGiB.Median, s.WriteRSSMiB.Median, s.ReadRSSMiB.Median)
	}
	t.Flush()
	fmt.Fprintln(w)
	for _, s := range r.Stores {
		fmt.Fprintf(w, "%s (%s): verified at a read: %s; %s\n", s.Store, s.Version, s.Verified, s.Settings)
		if s.WrongBlocks > 0 {
			fmt.Fprintf(w, "%s returned %d blocks with wrong bytes\n", s.Store, s.WrongBlocks)
		}
	}
}
