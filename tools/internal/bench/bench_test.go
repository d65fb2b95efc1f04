package bench

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/sealstone/sealstone/tools/internal/blockgen"
	"github.com/sealstone/sealstone/tools/internal/replay"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mapStore keeps blocks in memory; flip makes it serve wrong bytes, full
// refuses every second put.
type mapStore struct {
	mu         sync.Mutex
	blocks     map[string][]byte
	flip, full bool
	puts       int
}

func (s *mapStore) Match(_ context.Context, hashes [][]byte) (int, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, h := range hashes {
		if s.blocks[string(h)] == nil {
			return i, func() {}, nil
		}
	}
	return len(hashes), func() {}, nil
}

func (s *mapStore) Get(_ context.Context, blocks []replay.Block) []replay.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []replay.Result
	for _, b := range blocks {
		if s.blocks[string(b.Hash)] == nil {
			out = append(out, replay.Result{Status: "Miss"})
			continue
		}
		n := copy(b.Data, s.blocks[string(b.Hash)])
		if s.flip {
			b.Data[3] ^= 1
		}
		out = append(out, replay.Result{OK: true, Status: "OK", Bytes: int64(n)})
	}
	return out
}

func (s *mapStore) Put(_ context.Context, blocks []replay.Block) []replay.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []replay.Result
	for _, b := range blocks {
		if s.puts++; s.full && s.puts%2 == 0 {
			out = append(out, replay.Result{Status: "Shed", Shed: true})
			continue
		}
		s.blocks[string(b.Hash)] = append([]byte{}, b.Data...)
		out = append(out, replay.Result{OK: true, Status: "OK"})
	}
	return out
}

func (s *mapStore) Drop(context.Context, []byte) replay.Result { return replay.Result{} }
func (s *mapStore) NewBuffer(n int) ([]byte, func(), error)    { return make([]byte, n), func() {}, nil }
func (s *mapStore) Counters() (c replay.Counters)              { return c }
func (s *mapStore) Flush(context.Context) error                { return nil }
func (s *mapStore) Close(context.Context) error                { return nil }
func newMapStore() *mapStore                                   { return &mapStore{blocks: map[string][]byte{}} }
func smallConfig() Config {
	return Config{BlockBytes: 9000, BatchBlocks: 3, Bytes: 20 * 9000, Concurrency: 2, Rounds: 3}
}

func TestRun(t *testing.T) {
	s := newMapStore()
	c := smallConfig()
	var mu sync.Mutex
	var last int64
	c.Progress = func(done, total int64) {
		mu.Lock()
		defer mu.Unlock()
		last = max(last, done)
		if total != 3*3*18 {
			t.Errorf("progress of %d steps", total)
		}
	}
	r, err := Run(t.Context(), s, c)
	if err != nil {
		t.Fatal(err)
	}
	if last != 3*3*18 || len(s.blocks) != 3*18 || r.RoundBytes != 18*9000 {
		t.Errorf("progress %d, %d blocks stored, %d bytes a round", last, len(s.blocks), r.RoundBytes)
	}
	for i, name := range Workloads {
		got := r.Results[i]
		if got.Workload != name || got.Failed != 0 || got.Wrong != 0 || got.CallsPerSecond <= 0 || got.P99US < got.P50US {
			t.Errorf("%s: %+v", name, got)
		}
		if (got.GiBPerSecond > 0) != (name != Match) {
			t.Errorf("%s: %v GiB/s", name, got.GiBPerSecond)
		}
		if d := cmp.Diff(map[string]int64{"OK": 3 * 18}, got.Statuses); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	seen := map[string]bool{}
	for _, p := range s.blocks {
		if seen[string(p[4096:8192])] {
			t.Fatal("two blocks share a page")
		}
		seen[string(p[4096:8192])] = true
	}
}

func TestRunCountsFailures(t *testing.T) {
	s, c := newMapStore(), smallConfig()
	s.flip, s.full = true, true
	c.Workloads = []string{Onboard}
	r, err := Run(t.Context(), s, c)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Results[0]; got.Failed != 3*9 || got.Wrong != 3*9 {
		t.Errorf("failed %d, wrong %d; want 27 each", got.Failed, got.Wrong)
	}
	c.Workloads = []string{Match}
	if r, err = Run(t.Context(), newMapStore(), c); err != nil || r.Results[0].Failed != 0 {
		t.Errorf("match alone: %+v, %v", r, err)
	}
}

func TestRunRefuses(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"no workload":   func(c *Config) { c.Workloads = []string{"sleep"} },
		"rounds":        func(c *Config) { c.Rounds = 0 },
		"concurrency":   func(c *Config) { c.Concurrency = -1 },
		"batch":         func(c *Config) { c.BatchBlocks = 0 },
		"bytes or more": func(c *Config) { c.BlockBytes = 3 },
		"hold no block": func(c *Config) { c.Bytes = 8999 },
	} {
		c := smallConfig()
		change(&c)
		if _, err := Run(t.Context(), newMapStore(), c); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, newMapStore(), smallConfig()); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestStamp(t *testing.T) {
	p := make([]byte, 9000)
	stamp(p, ref(1, 2))
	if !stamped(p, ref(1, 2)) || stamped(p, ref(1, 3)) || stamped(p, ref(2, 2)) {
		t.Error("a stamp does not name its block")
	}
	copy(p[4096:], p[:16]) // a page of the same block in another place
	if stamped(p, ref(1, 2)) {
		t.Error("a stamp does not name its offset")
	}
	if (blockgen.Ref{}) == ref(0, 0) {
		t.Error("bench blocks share the scope of traces")
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		in   []float64
		want float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{4, 1, 2, 9}, 3}, {[]float64{1.00006}, 1.0001}} {
		if got := median(c.in); got != c.want {
			t.Errorf("median(%v) = %v, want %v", c.in, got, c.want)
		}
	}
}

func TestSummarise(t *testing.T) {
	m := measured{wall: 2 * time.Second, cpu: time.Second, bytes: 1 << 30, calls: replay.Latencies{time.Millisecond, 3 * time.Millisecond}}
	want := Result{Workload: Offload, GiBPerSecond: 0.5, CPUSecondsPerGiB: 1, CallsPerSecond: 1, P50US: 1000, P99US: 3000, Statuses: map[string]int64{}}
	if d := cmp.Diff(want, summarise(Offload, []measured{m})); d != "" {
		t.Error(d)
	}
}
