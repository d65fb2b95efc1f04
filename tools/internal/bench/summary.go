package bench

import (
	"fmt"

	"github.com/sealstone/sealstone/tools/internal/fio"
	"github.com/sealstone/sealstone/tools/internal/replay"
)

// summary gathers what the rounds of one workload came to.
type summary struct {
	name       string
	config     Config
	path       PathInfo
	memory     bool // the device is memory: see checkDepth
	rounds     []measured
	fio        []fioRound
	best, same fio.Job
	singles    []replay.Latencies
	fioSingles []fio.Result
	notes      []string

	checkFailed, checkWrong int64
}

// result is the summary in figures. Where the depth was not reached it is
// there, too, with an ErrDepth.
func (s *summary) result() (Result, error) {
	rate := spreadOf(each(s.rounds, func(m measured) float64 { return m.mibPerSecond() }))
	curve := curveOf(each(s.rounds, func(m measured) replay.Latencies { return m.calls }))
	r := Result{
		Workload: s.name, Path: s.path.Name, PathReason: s.path.Reason,
		MiBPerSecond: rate.median, MiBPerSecondMin: rate.least, MiBPerSecondMax: rate.most,
		CPUSecondsPerGiB:    median(each(s.rounds, func(m measured) float64 { return m.cpuPerGiB() })),
		OwnCPUSecondsPerGiB: median(each(s.rounds, func(m measured) float64 { return m.ownCPUPerGiB() })),
		CallsPerSecond:      median(each(s.rounds, func(m measured) float64 { return divide(float64(len(m.calls)), m.wall.Seconds()) })),
		Percentiles:         curve.percentiles(), Curve: curve,
		DepthMean: median(each(s.rounds, func(m measured) float64 { return m.depth })),
		Failed:    s.checkFailed, Wrong: s.checkWrong, Statuses: map[string]int64{}, Notes: s.notes,
		Beside: s.beside(), Latency: latencyOf(s.singles, s.fioSingles, s.same.Engine),
	}
	for i, m := range s.rounds {
		r.DepthSource = m.depthSource
		r.Failed += m.failed
		r.Wrong += m.wrong
		if r.FirstError == "" && m.firstErr != nil {
			r.FirstError = m.firstErr.Error()
		}
		for k, n := range m.statuses {
			r.Statuses[k] += n
		}
		round := Round{MiBPerSecond: round4(m.mibPerSecond())}
		if i < len(s.fio) {
			round.FioMiBPerSecond = round4(s.fio[i].best.MiBPerSecond())
		}
		r.RoundRates = append(r.RoundRates, round)
	}
	err := s.checkDepth(r.DepthMean)
	if err != nil && s.memory {
		// Requests to memory are over when they are made: the depth says how
		// busy the processor was and nothing of the device.
		r.Notes = append(r.Notes, err.Error())
		err = nil
	}
	return r, err
}

// checkDepth is an ErrDepth when most rounds were long enough to judge and
// the depth was not there.
func (s *summary) checkDepth(mean float64) error {
	judged := 0
	for _, m := range s.rounds {
		if m.depthJudged {
			judged++
		}
	}
	if want := s.config.depthWanted(); 2*judged > len(s.rounds) && mean < want {
		return fmt.Errorf("%w: %s: %.1f requests in flight on average, at least %.1f of the %d asked for are needed; "+
			"raise --concurrency, or ask for less with --depth", ErrDepth, s.name, mean, want, s.config.Depth)
	}
	return nil
}

// beside is nil where fio did not run.
func (s *summary) beside() *Beside {
	if len(s.fio) == 0 || len(s.fio) != len(s.rounds) {
		return nil
	}
	rate := spreadOf(each(s.fio, func(f fioRound) float64 { return f.best.MiBPerSecond() }))
	b := &Beside{
		FioMiBPerSecond: rate.median, FioMiBPerSecondMin: rate.least, FioMiBPerSecondMax: rate.most,
		FioEngine: s.best.Engine, FioThreads: s.best.Threads(), FioHugePages: s.best.HugePages, FioSameEngine: s.same.Engine,
		FioSameMiBPerSecond:  medianOf(s.fio, func(f fioRound) float64 { return f.same.MiBPerSecond() }),
		FioCPUSecondsPerGiB:  medianOf(s.fio, func(f fioRound) float64 { return f.same.CPUSecondsPerGiB() }),
		FioCPUBestEngine:     medianOf(s.fio, func(f fioRound) float64 { return f.best.CPUSecondsPerGiB() }),
		HashGiBPerSecond:     medianOf(s.fio, func(f fioRound) float64 { return f.hash.gibPerSecond }),
		HashCPUSecondsPerGiB: medianOf(s.fio, func(f fioRound) float64 { return f.hash.cpuPerGiB }),
		RooflineMiBPerSecond: medianOf(s.fio, fioRound.roofline),
	}
	var fioRatio, roofRatio, cpuRatio []float64
	for i, f := range s.fio {
		m := &s.rounds[i]
		fioRatio = append(fioRatio, divide(m.mibPerSecond(), f.best.MiBPerSecond()))
		roofRatio = append(roofRatio, divide(m.mibPerSecond(), f.roofline()))
		cpuRatio = append(cpuRatio, divide(m.cpuPerGiB(), f.same.CPUSecondsPerGiB()+f.hash.cpuPerGiB))
	}
	ratio := spreadOf(fioRatio)
	b.RatioToFio, b.RatioToFioMin, b.RatioToFioMax = ratio.median, ratio.least, ratio.most
	b.RatioToRoofline, b.CPURatio = median(roofRatio), median(cpuRatio)
	return b
}

// roofline in MiB/s.
func (f fioRound) roofline() float64 {
	rate, hash := f.best.MiBPerSecond(), f.hash.gibPerSecond*(1<<10)
	return divide(rate*hash, rate+hash)
}
