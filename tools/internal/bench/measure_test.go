package bench

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sealstone/sealstone/tools/internal/fio"
	"github.com/sealstone/sealstone/tools/internal/replay"
)

func TestSpread(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want spread
	}{
		{nil, spread{}}, {[]float64{3}, spread{3, 3, 3}}, {[]float64{9, 1, 2}, spread{2, 1, 9}},
		{[]float64{4, 1, 2, 9}, spread{3, 1, 9}}, {[]float64{1.00006}, spread{1.0001, 1.0001, 1.0001}},
	} {
		if got := spreadOf(c.in); got != c.want {
			t.Errorf("spreadOf(%v) = %v, want %v", c.in, got, c.want)
		}
	}
}

// round of a store: MiB in so many seconds at so much processor time.
func storeRound(mib, seconds, cpu, own float64) measured {
	d := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	return measured{wall: d(seconds), cpu: d(cpu), ownCPU: d(own), bytes: int64(mib * (1 << 20)),
		calls: replay.Latencies{time.Millisecond, 3 * time.Millisecond}}
}

func fioRoundOf(mib, seconds, cpu float64) fioRound {
	r := fio.Result{Bytes: int64(mib * (1 << 20)), Runtime: time.Duration(seconds * 1e9), CPU: time.Duration(cpu * 1e9)}
	return fioRound{best: r, same: r, hash: hashing{gibPerSecond: 1, cpuPerGiB: 0.1}}
}

func TestSummary(t *testing.T) {
	s := summary{
		name: Onboard, path: PathInfo{Name: "pread", Reason: "asked for"}, config: Config{Depth: 1, Concurrency: 2, BatchBlocks: 1, BlockBytes: 1, Bytes: 1},
		// The machine was slow in the second round: both were.
		rounds: []measured{storeRound(1024, 1, 0.3, 0.1), storeRound(1024, 4, 0.3, 0.1), storeRound(1024, 1.25, 0.5, 0.1)},
		fio:    []fioRound{fioRoundOf(1024, 1, 0.1), fioRoundOf(1024, 3, 0.1), fioRoundOf(1024, 1, 0.1)},
		best:   fio.Job{Engine: fio.EngineUring, Jobs: 2}, same: fio.Job{Engine: fio.EnginePsync, Depth: 8},
	}
	r, err := s.result()
	if err != nil {
		t.Fatal(err)
	}
	if r.MiBPerSecond != 819.2 || r.MiBPerSecondMin != 256 || r.MiBPerSecondMax != 1024 {
		t.Errorf("rates %v, %v, %v", r.MiBPerSecond, r.MiBPerSecondMin, r.MiBPerSecondMax)
	}
	if r.CPUSecondsPerGiB != 0.2 || r.OwnCPUSecondsPerGiB != 0.1 || r.P50US != 1000 || r.MaxUS != 3000 || r.CallsPerSecond != 1.6 {
		t.Errorf("%+v", r)
	}
	want := Beside{
		FioMiBPerSecond: 1024, FioMiBPerSecondMin: round4(1024.0 / 3), FioMiBPerSecondMax: 1024,
		FioEngine: fio.EngineUring, FioThreads: 2, FioSameEngine: fio.EnginePsync,
		RatioToFio: 0.8, RatioToFioMin: 0.75, RatioToFioMax: 1,
		FioSameMiBPerSecond: 1024, FioCPUSecondsPerGiB: 0.1, FioCPUBestEngine: 0.1,
		HashGiBPerSecond: 1, HashCPUSecondsPerGiB: 0.1, RooflineMiBPerSecond: 512,
		// Each round against its own roofline: 1024/512, 256/256, 819.2/512.
		RatioToRoofline: 1.6, CPURatio: 1,
	}
	if d := cmp.Diff(want, *r.Beside); d != "" {
		t.Error(d)
	}
}

// TestShallowOnMemory: a depth that was not there is told, and is no failure.
func TestShallowOnMemory(t *testing.T) {
	for _, memory := range []bool{false, true} {
		s := summary{
			name: Onboard, memory: memory, config: Config{Depth: 10, Concurrency: 2, BatchBlocks: 10, BlockBytes: 1, Bytes: 100},
			rounds: []measured{{depth: 3, depthJudged: true}},
		}
		r, err := s.result()
		if told := len(r.Notes) == 1; told != memory || errors.Is(err, ErrDepth) == memory {
			t.Errorf("memory %v: %v, %v", memory, r.Notes, err)
		}
	}
}

func TestBesideIsAllOrNothing(t *testing.T) {
	s := summary{rounds: make([]measured, 2), fio: make([]fioRound, 1)}
	if b := s.beside(); b != nil {
		t.Errorf("a ratio over rounds that fio did not run: %+v", b)
	}
}

func TestCurve(t *testing.T) {
	var l replay.Latencies
	for i := 1; i <= 1000; i++ {
		l = append(l, time.Duration(i)*time.Microsecond)
	}
	c := curveOf([]replay.Latencies{l, l, append(replay.Latencies{time.Second}, l...)})
	if got := c.percentiles(); got != (Percentiles{500, 900, 990, 999, 1e6}) {
		t.Errorf("%+v", got)
	}
	for i := 1; i < len(c); i++ {
		if c[i].Percent <= c[i-1].Percent || c[i].US < c[i-1].US {
			t.Errorf("the curve falls at %v", c[i])
		}
	}
	if (Curve{}).at(50) != 0 {
		t.Error("a percentile of nothing")
	}
}

func TestPercentilesOfFio(t *testing.T) {
	a := fio.Result{Latency: map[float64]time.Duration{50: 10 * time.Microsecond, 99: 30 * time.Microsecond}}
	b := fio.Result{Latency: map[float64]time.Duration{50: 20 * time.Microsecond}}
	if got := percentilesOf([]fio.Result{a, b}); len(got) != 1 || got[0] != (Point{50, 15}) {
		t.Errorf("%v", got)
	}
	l := latencyOf([]replay.Latencies{{20 * time.Microsecond}, {60 * time.Microsecond}}, []fio.Result{a, a}, fio.EnginePsync)
	if l.P99ToFio != round4((20.0/30+60.0/30)/2) || l.Fio.P99US != 30 {
		t.Errorf("%+v", l)
	}
	if l := latencyOf(nil, nil, ""); l != nil {
		t.Errorf("latencies of nothing: %+v", l)
	}
}

func TestCallDepth(t *testing.T) {
	now := time.Unix(100, 0)
	d := &callDepth{now: func() time.Time { return now }}
	w := &world{}
	s := &mapStore{world: w}
	from := markDepth(d, s, false)
	d.add(10)
	now = now.Add(2 * time.Second)
	d.add(10)
	now = now.Add(time.Second)
	d.add(-20)
	now = now.Add(time.Second)
	// 10 for two seconds, 20 for one, none for one.
	if got, source := meanDepth(from, markDepth(d, s, false), 64); got != 10 || source != DepthOfCalls {
		t.Errorf("%v by %s", got, source)
	}
	if got, _ := meanDepth(from, markDepth(d, s, false), 8); got != 8 {
		t.Errorf("%v, beyond what readers allow", got)
	}
	if got, _ := meanDepth(from, from, 8); got != 0 {
		t.Errorf("%v in no time", got)
	}
}

func TestMeasureHash(t *testing.T) {
	for _, buffers := range [][][]byte{{make([]byte, 1<<20)}, {make([]byte, 100)}, {nil, make([]byte, 200<<10)}} {
		h := measureHash(buffers)
		if h.gibPerSecond <= 0 || math.IsInf(h.gibPerSecond, 0) || h.cpuPerGiB < 0 {
			t.Errorf("%+v", h)
		}
	}
}
