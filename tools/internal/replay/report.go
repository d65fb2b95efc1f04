package replay

import (
	"math"
	"time"
)

// Report is the outcome of a replay.
type Report struct {
	Trace         string `json:"trace"`
	Format        string `json:"format"`
	Requests      int    `json:"requests"`
	BlockBytes    int64  `json:"block_size_bytes"`
	CapacityBytes int64  `json:"capacity_bytes"`
	// Blocks are the block references of all requests.
	Blocks int64 `json:"blocks"`
	// HitRate is the share of references that were read from the store and
	// right; HitRateInfinite is what a cache without limits would have had.
	HitRate         float64 `json:"hit_rate"`
	HitRateInfinite float64 `json:"hit_rate_infinite"`
	// VerifiedBytes were compared with the generator; WrongBytes differed.
	VerifiedBytes int64 `json:"verified_bytes"`
	WrongBytes    int64 `json:"wrong_bytes"`
	// PutBytes are the bytes of the blocks stored, WriteAmplification what
	// was written to segments, log and index for each of them.
	PutBytes           int64   `json:"put_bytes"`
	WrittenBytes       int64   `json:"written_bytes"`
	WriteAmplification float64 `json:"write_amplification"`
	// DiskBytesMax is the most that the directory was seen to hold.
	DiskBytesMax int64 `json:"disk_bytes_max"`
	DiskSamples  int64 `json:"disk_samples"`
	// Percentiles of a match, and of a get or put of one batch of blocks.
	MatchP50US float64 `json:"match_p50_us"`
	MatchP99US float64 `json:"match_p99_us"`
	GetP50US   float64 `json:"get_p50_us"`
	GetP99US   float64 `json:"get_p99_us"`
	PutP50US   float64 `json:"put_p50_us"`
	PutP99US   float64 `json:"put_p99_us"`

	Stored      int64    `json:"stored"`
	Existed     int64    `json:"existed"`
	Shed        int64    `json:"shed"`
	Evicted     int64    `json:"evicted"`
	MatchErrors int64    `json:"match_errors"`
	Statuses    Statuses `json:"statuses"`
	Problems    []string `json:"problems"`
	Seconds     float64  `json:"seconds"`

	// KillReport is there if the store was killed on the way.
	*KillReport
}

// Statuses counts blocks by what the store answered.
type Statuses struct {
	Get map[string]int64 `json:"get"`
	Put map[string]int64 `json:"put"`
}

// KillReport is what was found after the kill.
type KillReport struct {
	KilledAfter int `json:"killed_after"` // requests finished before
	// KilledInPut: no answer to the put under way came before the end.
	KilledInPut bool `json:"killed_in_put"`
	// Acknowledged blocks must be found; Dropped ones must not.
	Acknowledged int64 `json:"acknowledged"`
	Dropped      int64 `json:"dropped"`
	ReopenFound  int64 `json:"reopen_found"`
	// ReopenMissing are acknowledged blocks that were not found and that no
	// eviction before the kill accounts for; ReopenEvicted those it does.
	ReopenMissing int64 `json:"reopen_missing"`
	ReopenEvicted int64 `json:"reopen_evicted"`
	ReopenWrong   int64 `json:"reopen_wrong"`
	Resurrected   int64 `json:"resurrected"`
	// UnacknowledgedFound were put, not acknowledged, and are there: allowed.
	UnacknowledgedFound int64            `json:"unacknowledged_found"`
	ReopenStatuses      map[string]int64 `json:"reopen_statuses"`
	ReopenMS            float64          `json:"reopen_ms"`
}

// Broken lists the promises that the replay saw broken, in words.
func (r *Report) Broken() []string {
	var broken []string
	add := func(n int64, text string) {
		if n > 0 {
			broken = append(broken, text)
		}
	}
	add(r.WrongBytes, "wrong bytes were served")
	add(r.DiskBytesMax-r.CapacityBytes, "the store held more than its capacity")
	if r.KillReport != nil {
		add(r.ReopenMissing, "acknowledged blocks are missing after the kill")
		add(r.ReopenWrong, "blocks are wrong after the kill")
		add(r.Resurrected, "dropped blocks came back after the kill")
	}
	return broken
}

// tally adds outcomes up.
type tally struct {
	report            Report
	hits              int64
	match, gets, puts Latencies
}

func (t *tally) add(o Outcome) {
	r := &t.report
	r.Requests++
	r.Blocks += int64(o.References)
	t.hits += int64(o.Hits)
	r.VerifiedBytes += o.VerifiedBytes
	r.WrongBytes += o.WrongBytes
	r.PutBytes += o.PutBytes
	r.Stored += int64(o.Stored)
	r.Existed += int64(o.Existed)
	r.Shed += int64(o.Shed)
	r.MatchErrors += o.MatchErrors
	addCounts(&r.Statuses.Get, o.GetStatuses)
	addCounts(&r.Statuses.Put, o.PutStatuses)
	for _, p := range o.Problems {
		t.problem(p)
	}
	if o.References > 0 {
		t.match = append(t.match, o.Match)
	}
	t.gets = append(t.gets, o.Gets...)
	t.puts = append(t.puts, o.Puts...)
}

func (t *tally) problem(text string) {
	if len(t.report.Problems) < maxProblems {
		t.report.Problems = append(t.report.Problems, text)
	}
}

func addCounts(to *map[string]int64, from map[string]int64) {
	if *to == nil {
		*to = map[string]int64{}
	}
	for k, n := range from {
		(*to)[k] += n
	}
}

// finish computes what follows from the sums.
func (t *tally) finish(c Counters, took time.Duration) *Report {
	r := &t.report
	r.HitRate = ratio(t.hits, r.Blocks)
	r.WrittenBytes = c.writtenBytes()
	r.WriteAmplification = ratio(r.WrittenBytes, r.PutBytes)
	r.Evicted = c.Evicted
	r.MatchP50US, r.MatchP99US = t.match.PercentileUS(50), t.match.PercentileUS(99)
	r.GetP50US, r.GetP99US = t.gets.PercentileUS(50), t.gets.PercentileUS(99)
	r.PutP50US, r.PutP99US = t.puts.PercentileUS(50), t.puts.PercentileUS(99)
	r.Seconds = math.Round(took.Seconds()*1000) / 1000
	if r.Problems == nil {
		r.Problems = []string{}
	}
	return r
}

// ratio is a/b to six digits, 0 if there is no b.
func ratio(a, b int64) float64 {
	if b == 0 {
		return 0
	}
	return math.Round(float64(a)/float64(b)*1e6) / 1e6
}
