package fio

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// ErrJob: a Job that says nothing that fio could run.
var ErrJob = errors.New("fio: invalid job")

// The kinds of work.
const (
	RandomRead      = "randread"
	SequentialWrite = "write"
)

// The engines that a Job may name.
const (
	EngineUring  = "io_uring"
	EngineLibaio = "libaio"
	EnginePsync  = "psync"
)

// Engines are the engines in the order in which they are tried.
var Engines = []string{EngineUring, EngineLibaio, EnginePsync}

// Job is one run over one file.
type Job struct {
	Work       string // RandomRead or SequentialWrite
	File       string
	FileBytes  int64 // a whole number of blocks for each of Jobs
	BlockBytes int64
	Engine     string
	Depth      int // requests in flight, all jobs together
	Jobs       int // threads that share the file; each has a part of its own
	Buffered   bool
	// HugePages puts fio's memory on pages that the system has set aside
	// (vm.nr_hugepages); fio has no other way to huge pages.
	HugePages bool
	// Runtime ends the run then, and begins the file anew when its end came
	// earlier; 0 goes over the file exactly once.
	Runtime time.Duration
	// RuntimeMax ends a run that is not over by then; 0 lets it come to its end.
	RuntimeMax time.Duration
}

// Check says what is wrong with a Job.
func (j Job) Check() error {
	switch {
	case j.Work != RandomRead && j.Work != SequentialWrite:
		return fmt.Errorf("%w: work %q is neither %s nor %s", ErrJob, j.Work, RandomRead, SequentialWrite)
	case !slices.Contains(Engines, j.Engine):
		return fmt.Errorf("%w: engine %q is none of %v", ErrJob, j.Engine, Engines)
	case j.File == "" || j.BlockBytes < 1 || j.Jobs < 1 || j.Depth < j.Jobs || j.Runtime < 0 || j.RuntimeMax < 0:
		return fmt.Errorf("%w: a file, blocks, one job or more and a request for each of them are needed", ErrJob)
	case j.FileBytes < j.BlockBytes || j.FileBytes%(j.BlockBytes*int64(j.Jobs)) != 0:
		return fmt.Errorf("%w: %d bytes are not whole blocks of %d for %d jobs", ErrJob, j.FileBytes, j.BlockBytes, j.Jobs)
	case j.FileBytes/int64(j.Threads()) < j.BlockBytes:
		return fmt.Errorf("%w: %d bytes have no block of %d for each of %d threads", ErrJob, j.FileBytes, j.BlockBytes, j.Threads())
	}
	return nil
}

// Threads is how many threads do the work, each on a part of the file. The
// engine psync has one request in flight per thread, so there the depth is a
// number of threads.
func (j Job) Threads() int {
	if j.Engine == EnginePsync {
		return j.Depth
	}
	return j.Jobs
}

// arguments are fio's command line. Reads visit every block of the file once
// in a random order; a write is synced at its end and the sync is part of the
// time. Caches of the file are dropped at the start (fio's default).
func (j Job) arguments() []string {
	n := func(v int64) string { return strconv.FormatInt(v, 10) }
	threads := int64(j.Threads())
	part := j.FileBytes / threads / j.BlockBytes * j.BlockBytes
	args := []string{
		"--name=sealstone", "--output-format=json", "--thread", "--group_reporting",
		"--filename=" + j.File, "--rw=" + j.Work, "--ioengine=" + j.Engine,
		"--bs=" + n(j.BlockBytes), "--size=" + n(part), "--offset_increment=" + n(part),
		"--numjobs=" + n(threads), "--iodepth=" + n(int64(j.Depth)/threads),
		"--direct=" + map[bool]string{false: "1", true: "0"}[j.Buffered],
		"--lat_percentiles=1", "--percentile_list=" + percentileList(),
	}
	if j.HugePages {
		args = append(args, "--mem=shmhuge")
	}
	if j.Work == SequentialWrite {
		args = append(args, "--end_fsync=1")
	}
	seconds := func(d time.Duration) string { return "--runtime=" + n(max(d.Milliseconds(), 1)) + "ms" }
	switch {
	case j.Runtime > 0:
		args = append(args, "--time_based", seconds(j.Runtime))
	case j.RuntimeMax > 0:
		args = append(args, seconds(j.RuntimeMax))
	}
	return args
}
