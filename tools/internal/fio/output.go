package fio

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrOutput: fio printed something that is no report of its work.
var ErrOutput = errors.New("fio: unusable output")

// outputBytesMax bounds what is kept of fio's output; a report has about 10 KiB.
const outputBytesMax = 1 << 20

// percentiles are those that fio is asked for; 100 is the maximum.
var percentiles = []float64{1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99, 99.9, 100}

func percentileList() string {
	parts := make([]string, len(percentiles))
	for i, p := range percentiles {
		parts[i] = strconv.FormatFloat(p, 'f', -1, 64)
	}
	return strings.Join(parts, ":")
}

// Result is what a job came to.
type Result struct {
	Bytes   int64
	Runtime time.Duration // of the longest thread
	// CPU is user and system time of fio's threads. What kernel threads did
	// on their behalf is not in it.
	CPU time.Duration
	// Latency of a request from its submission to its completion, by
	// percentile (50, 99, 99.9 …, 100 the maximum).
	Latency map[float64]time.Duration
}

// MiBPerSecond is the rate over the whole run.
func (r Result) MiBPerSecond() float64 {
	if r.Runtime <= 0 {
		return 0
	}
	return float64(r.Bytes) / (1 << 20) / r.Runtime.Seconds()
}

// CPUSecondsPerGiB is the processor time for each GiB moved.
func (r Result) CPUSecondsPerGiB() float64 {
	if r.Bytes <= 0 {
		return 0
	}
	return r.CPU.Seconds() / (float64(r.Bytes) / (1 << 30))
}

// report has the fields of fio's JSON that are used here.
type report struct {
	Jobs []struct {
		Error     int        `json:"error"`
		RuntimeMS float64    `json:"job_runtime"` // of all threads together
		UserCPU   float64    `json:"usr_cpu"`     // per cent of job_runtime
		SystemCPU float64    `json:"sys_cpu"`
		Read      *direction `json:"read"`
		Write     *direction `json:"write"`
	} `json:"jobs"`
}

type direction struct {
	Bytes     int64   `json:"io_bytes"`
	RuntimeMS float64 `json:"runtime"`
	BytesPerS float64 `json:"bw_bytes"`
	Latency   struct {
		Percentile map[string]float64 `json:"percentile"`
	} `json:"lat_ns"`
}

// parse reads a report. fio prints warnings in front of it, so it begins at
// the first line that is an opening brace.
func parse(out []byte, work string) (Result, error) {
	start := 0
	if !bytes.HasPrefix(out, []byte("{")) {
		start = bytes.Index(out, []byte("\n{")) + 1
	}
	var r report
	if err := json.NewDecoder(bytes.NewReader(out[start:])).Decode(&r); err != nil {
		return Result{}, fmt.Errorf("%w: %.200q: %w", ErrOutput, out, err)
	}
	if len(r.Jobs) != 1 {
		return Result{}, fmt.Errorf("%w: %d jobs in the report instead of 1", ErrOutput, len(r.Jobs))
	}
	j := r.Jobs[0]
	if j.Error != 0 {
		return Result{}, fmt.Errorf("%w: the job ended with error %d", ErrOutput, j.Error)
	}
	d := j.Read
	if work == SequentialWrite {
		d = j.Write
	}
	if d == nil || d.Bytes <= 0 || !positive(d.RuntimeMS) && !positive(d.BytesPerS) {
		return Result{}, fmt.Errorf("%w: the report has no bytes or no time for %s", ErrOutput, work)
	}
	res := Result{Bytes: d.Bytes, Runtime: d.runtime(), Latency: map[float64]time.Duration{}}
	if cpu := j.RuntimeMS * (j.UserCPU + j.SystemCPU) / 100; positive(cpu) {
		res.CPU = milliseconds(cpu)
	}
	for name, ns := range d.Latency.Percentile {
		if p, err := strconv.ParseFloat(name, 64); err == nil && ns >= 0 {
			res.Latency[p] = milliseconds(ns / 1e6)
		}
	}
	return res, nil
}

// runtime is taken from the rate, which is finer than the whole milliseconds
// that fio prints. The rate is that of the file over the longest thread.
func (d *direction) runtime() time.Duration {
	if positive(d.BytesPerS) {
		return milliseconds(float64(d.Bytes) / d.BytesPerS * 1e3)
	}
	return milliseconds(d.RuntimeMS)
}

// positive is false for NaN and infinity, too.
func positive(v float64) bool { return v > 0 && v <= math.MaxFloat64 }

func milliseconds(ms float64) time.Duration {
	const most = float64(1<<62) / float64(time.Millisecond)
	return max(time.Duration(min(ms, most)*float64(time.Millisecond)), 1)
}
