package bench

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sealstone/sealstone/tools/internal/stamp"
)

func TestRun(t *testing.T) {
	w := &world{path: "pread"}
	c := smallConfig(t, w)
	c.Workloads = Workloads
	c.Planes = 8
	var mu sync.Mutex
	last := map[string]Progress{}
	c.Progress = func(p Progress) {
		mu.Lock()
		defer mu.Unlock()
		if p.Done > last[p.What].Done || p.Round > last[p.What].Round {
			last[p.What] = p
		}
	}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if r.RoundBytes != 18*9000 || r.Depth != 3 {
		t.Errorf("rounds of %d bytes, depth %d", r.RoundBytes, r.Depth)
	}
	for i, name := range Workloads {
		got := r.Results[i]
		if got.Workload != name || got.Failed != 0 || got.Wrong != 0 || got.CallsPerSecond <= 0 || got.P99US < got.P50US || got.Path != "pread" {
			t.Errorf("%s: %+v", name, got)
		}
		if (got.MiBPerSecond > 0) != (name != Match) || len(got.RoundRates) != 3 {
			t.Errorf("%s: %v MiB/s, %v", name, got.MiBPerSecond, got.RoundRates)
		}
		want := map[string]int64{"OK": 3 * 18}
		if name == Match {
			want["OK"] = 3 * 256 * 18
		}
		if d := cmp.Diff(want, got.Statuses); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if p := last[name]; p.Round != 3 || p.Rounds != 3 || p.Done != p.Total {
			t.Errorf("%s: progress ended with %+v", name, p)
		}
	}
	// A store for each round of puts; the last one serves the readers.
	if len(w.stores) != 3 {
		t.Errorf("%d stores", len(w.stores))
	}
	empty(t, c, w)
}

// TestPagesAreUnique: no two pages of all that is put are equal, over rounds
// and workloads.
func TestPagesAreUnique(t *testing.T) {
	w := &world{}
	c := smallConfig(t, w)
	c.Workloads = []string{Offload, Mixed}
	if _, err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, s := range w.stores {
		for _, p := range s.blocks {
			for off := 0; off+stamp.Bytes <= len(p); off += stamp.Every {
				page := string(p[off:min(off+stamp.Every, len(p))])
				if seen[page] {
					t.Fatal("two pages are equal")
				}
				seen[page] = true
			}
		}
	}
	if len(seen) < 3*18*3 {
		t.Errorf("only %d pages", len(seen))
	}
}

func TestPlanes(t *testing.T) {
	w := &world{}
	c := smallConfig(t, w)
	c.Workloads = []string{Onboard, Ranges}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	// Ranges wants a store with other planes.
	if len(w.stores) != 2 || w.stores[0].shape.Planes != 1 || w.stores[1].shape.Planes != rangePlanes {
		t.Errorf("%d stores", len(w.stores))
	}
	if got := r.Results[1]; got.Wrong != 0 || got.Failed != 0 {
		t.Errorf("%+v", got)
	}
	for _, s := range []Shape{{BlockBytes: 100, Planes: 3}, {BlockBytes: 9000, Planes: 32}, {BlockBytes: 7, Planes: 1}} {
		at := int64(0)
		for i := range s.Planes {
			from, to := s.plane(i)
			if from != at || to <= from {
				t.Errorf("%+v: plane %d is %d..%d, want it from %d on", s, i, from, to, at)
			}
			at = to
		}
		if at != s.BlockBytes {
			t.Errorf("%+v: the planes end at %d", s, at)
		}
	}
}

func TestRunCountsWrongBytes(t *testing.T) {
	for _, name := range []string{Onboard, Ranges, Offload} {
		w := &world{flip: true}
		c := smallConfig(t, w)
		c.Workloads, c.Bytes, c.Planes = []string{name}, 18*9000, 2 // a plane has one stamp or two
		r, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		// Each block once in each round, and once when all pages are looked at.
		want := int64(4 * 18)
		if name == Offload {
			want = 18
		}
		if got := r.Results[0].Wrong; got != want {
			t.Errorf("%s: %d wrong blocks, want %d", name, got, want)
		}
	}
}

func TestRunCountsFailures(t *testing.T) {
	w := &world{full: true}
	c := smallConfig(t, w)
	c.Workloads = []string{Offload}
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Results[0]; got.Failed != 3*9 || got.FirstError != "full" || got.Statuses["Shed"] != 27 {
		t.Errorf("%+v", got)
	}
	c.Workloads = []string{Onboard}
	if _, err := Run(t.Context(), c); !errors.Is(err, ErrIncomplete) || !strings.Contains(err.Error(), "9 of 18 puts") {
		t.Errorf("a store that does not take the blocks: %v", err)
	}
	empty(t, c, w)
	w.failOpen = true
	if _, err := Run(t.Context(), c); err == nil || !strings.Contains(err.Error(), "no store today") {
		t.Errorf("a store that does not open: %v", err)
	}
	empty(t, c, w)
}

// TestPathIsKept: where the first store chose its path, the others take it.
func TestPathIsKept(t *testing.T) {
	w := &world{path: "uring"}
	c := smallConfig(t, w)
	c.Workloads = []string{Offload}
	if _, err := Run(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for i, s := range w.stores {
		if want := map[bool]string{true: PathAuto, false: "uring"}[i == 0]; s.shape.Path != want {
			t.Errorf("store %d was asked for path %s, want %s", i, s.shape.Path, want)
		}
	}
	c.Progress = func(p Progress) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if p.Round == 3 {
			w.path = "pread" // uring was demoted
		}
	}
	r, err := Run(t.Context(), c)
	if err != nil || !strings.Contains(strings.Join(r.Results[0].Notes, " "), "changed to pread") {
		t.Errorf("%+v, %v", r, err)
	}
	c.Path, c.Progress = "buffered", nil
	if r, err = Run(t.Context(), c); err != nil || !strings.Contains(strings.Join(r.Results[0].Notes, " "), "buffered was asked for, the store used pread") {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestDepth: the reader says that it has two requests in flight where ten are
// asked for.
func TestDepth(t *testing.T) {
	for _, tc := range []struct {
		inFlight float64
		fails    bool
	}{{2, true}, {7, true}, {9, false}, {10, false}} {
		w := &world{inFlight: tc.inFlight}
		c := smallConfig(t, w)
		c.judgeFrom = 1
		c.Workloads, c.BatchBlocks, c.Bytes, c.Concurrency, c.Depth = []string{Onboard}, 5, 200*9000, 3, 10
		r, err := Run(t.Context(), c)
		if errors.Is(err, ErrDepth) != tc.fails {
			t.Fatalf("%v in flight: %v", tc.inFlight, err)
		}
		if tc.fails && !strings.Contains(err.Error(), "at least 8.0 of the 10") {
			t.Errorf("the message: %v", err)
		}
		if r == nil || r.Results[0].DepthSource != DepthOfReader || r.Results[0].DepthMean < tc.inFlight*0.9 {
			t.Errorf("%v in flight: %+v", tc.inFlight, r)
		}
		empty(t, c, w)
	}
}

func TestDuration(t *testing.T) {
	w := &world{}
	c := smallConfig(t, w)
	// Each look at the clock takes a second.
	clock, begin := atomic.Int64{}, time.Now()
	c.now = func() time.Time { return begin.Add(time.Duration(clock.Add(1)) * time.Second) }
	c.Workloads, c.Duration = []string{Onboard, Offload}, 1
	r, err := Run(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	// Over before it began, but for the filling.
	for _, x := range r.Results {
		if x.Statuses["OK"] != 0 || x.Failed != 0 && x.Workload == Onboard {
			t.Errorf("%+v", x)
		}
	}
	c.Workloads, c.Duration, c.Rounds = []string{Onboard}, 50*time.Second, 1
	if r, err = Run(t.Context(), c); err != nil || r.Results[0].Statuses["OK"] <= 18 {
		t.Errorf("reads did not begin anew: %+v, %v", r, err)
	}
}

func TestRunInterrupted(t *testing.T) {
	w := &world{}
	c := smallConfig(t, w)
	ctx, cancel := context.WithCancel(t.Context())
	c.Progress = func(p Progress) {
		if p.What == Onboard {
			cancel()
		}
	}
	if _, err := Run(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	empty(t, c, w)
}

func TestRunRefuses(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no workload":         func(c *Config) { c.Workloads = []string{"sleep"} },
		"no directory":        func(c *Config) { c.Dir = "" },
		"rounds":              func(c *Config) { c.Rounds = -1 },
		"concurrency must":    func(c *Config) { c.Concurrency = -1 },
		"batch":               func(c *Config) { c.BatchBlocks = -1 },
		"1 GiB or less":       func(c *Config) { c.BatchBlocks = 1 << 20 },
		"bytes or more":       func(c *Config) { c.BlockBytes = 3 },
		"hold no block":       func(c *Config) { c.Bytes = 8999 },
		"depth of 65":         func(c *Config) { c.Depth = 65 },
		"cannot make a depth": func(c *Config) { c.Depth = 7 },
		"negative":            func(c *Config) { c.Duration = -1 },
		"planes":              func(c *Config) { c.Planes = 1000 },
	} {
		c := smallConfig(t, &world{})
		change(&c)
		if _, err := Run(t.Context(), c); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}
