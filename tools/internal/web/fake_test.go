package web

import (
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/tools/internal/server"
)

// fake is a process that tests make up. Each look at its store is two seconds
// later than the last, with traffic in between.
type fake struct {
	mu     sync.Mutex
	phase  Phase
	detail string
	alive  bool
	health engine.Health
	looks  int64
	closed bool // there is no store yet
	gpus   GPUs
	events []engine.Event
}

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newFake() *fake {
	return &fake{
		phase: PhaseServing, alive: true, health: engine.Health{State: engine.HealthOK},
		gpus: GPUs{State: "found", Pairs: []GPUPair{
			{GPU: "NVIDIA H100 80GB GPU-1b2c", Path: "cufile", Reason: "bytes of a fresh file arrived as written, 24 checks"},
			{GPU: "NVIDIA H100 80GB GPU-77aa", Path: "host-bounce", Reason: "the direct way is not proven: file registration failed with 5027: nvidia-fs is not loaded"},
		}},
		events: []engine.Event{
			{Seq: 1, Time: began, Kind: engine.EventOpened, Message: "opened in 0.4 s"},
			{Seq: 2, Time: began.Add(time.Hour), Kind: engine.EventPathDemoted, Message: "path uring returned wrong bytes where pread did not; " + markup()},
			{Seq: 3, Time: began.Add(2 * time.Hour), Kind: engine.EventEvict, Message: "segment 17 evicted: 212 blocks went, 40 were moved on"},
		},
	}
}

// markup must come out as text; in a picture for people it is left out.
func markup() string {
	if *pictures != "" {
		return "it is not used again"
	}
	return "<b>it is not used again</b>"
}

func (f *fake) change(do func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do()
}

func (f *fake) moment() Moment {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := Moment{Phase: f.phase, Detail: f.detail, GPUs: f.gpus}
	if !f.closed {
		m.Store, m.Server = f, f.server
	}
	return m
}

func (f *fake) isAlive() (bool, string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.alive, "the store gives no answer"
}

func (f *fake) now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return began.Add(3*time.Hour + time.Duration(f.looks)*2*time.Second)
}

func (f *fake) Health() engine.Health {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.health
}

func (f *fake) Events(uint64) []engine.Event { return append([]engine.Event(nil), f.events...) }

func (f *fake) Tenants() []engine.TenantUse {
	return []engine.TenantUse{
		{Tenant: "team-a", QuotaBytes: 400 << 30, StoredBytes: 391 << 30, Blocks: 380_211, ShedBlocks: 12, TrimmedBlocks: 4_020},
		{Tenant: "team-b", StoredBytes: 96 << 30, Blocks: 101_000},
	}
}

// wave is traffic that goes up and down, so that a graph shows something.
func wave(n int64) int64 { return []int64{3, 5, 9, 14, 18, 17, 12, 8, 6, 4}[n%10] << 28 }

func (f *fake) Stats() engine.Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looks++
	var read, put int64
	for i := range f.looks {
		read, put = read+wave(i), put+wave(i+4)/3
	}
	return engine.Stats{
		CapacityBytes: 1 << 40, DiskBytes: 702 << 30, LiveBytes: 487 << 30, Segments: 690, IndexBytes: 61 << 20, LogBytes: 64 << 20,
		ServedBytes: read, VerifiedBytes: read + 1<<20, PutBytes: put, MatchBlocks: 91_000, MatchHits: 70_123,
		GetStatus:     map[engine.Status]int64{engine.StatusOK: 702_122, engine.StatusMiss: 120_400, engine.StatusCorrupt: 1},
		EvictedBlocks: 8_212, Quarantined: 1, PathRead: "pread",
		Host: engine.HostStats{CapacityBytes: 8 << 30, Bytes: 7 << 30, Hits: 210_000, Misses: 492_122, VerifiedBytes: read / 4},
		Paths: []engine.PathState{{Name: "uring", Reads: 60_012, Demoted: "returned wrong bytes where pread did not"},
			{Name: "pread", Reads: 432_110, Current: true}, {Name: "buffered"}},
		Probe: &engine.ProbeReport{Paths: []disk.ProbePath{
			{Name: "uring", State: disk.PathProven, ReadMiBs: 6_312}, {Name: "pread", State: disk.PathProven, ReadMiBs: 5_871},
			{Name: "buffered", State: disk.PathRefused, Reason: "content differs: other bytes came back than were written"}}},
	}
}

func (f *fake) server() server.Stats {
	return server.Stats{
		Connections: 48, ConnectionsMax: 2048, ConnectionsAccepted: 91, AuthFailures: 2, BytesIn: 1 << 40, BytesOut: 3 << 40,
		Kinds: map[string]server.KindStats{
			"plain": {Gets: 822_523, Hits: 702_122, Misses: 120_400, Corrupt: 1, VerifiedBytes: 7 << 40, Puts: 9_000, Stored: 8_900, Shed: 100, PutBytes: 1 << 33},
			"block": {Gets: 10, Hits: 9, Failed: 1, Puts: 3, Existed: 3},
		},
		Commands: map[string]server.CommandStats{
			"get":    {Calls: 822_523, Errors: 3, Busy: 31 * time.Minute, Buckets: []int64{800_000, 22_000, 523}},
			"exists": {Calls: 911_000, Busy: 9 * time.Second, Buckets: []int64{911_000, 0, 0}},
		},
		BucketBounds: []time.Duration{time.Millisecond, time.Second},
		Limits:       map[string]int64{"connections": 4},
	}
}

func (f *fake) options() Options {
	return Options{Now: f.moment, Alive: f.isAlive, Dir: "/var/lib/sealstone", Version: "v1.2.3", Started: began, Clock: f.now}
}

func serve(t *testing.T, o Options) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(NewHandler(o))
	t.Cleanup(s.Close)
	return s
}
