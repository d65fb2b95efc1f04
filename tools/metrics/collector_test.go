package metrics

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/sealstone/sealstone/engine"
)

var update = flag.Bool("update", false, "rewrite the golden files")

type fixed struct{ stats engine.Stats }

func (f fixed) Stats() engine.Stats { return f.stats }
func (f fixed) Tenants() []engine.TenantUse {
	return []engine.TenantUse{{Tenant: "team-a", QuotaBytes: 5001, StoredBytes: 5002, Blocks: 5003, ShedBlocks: 5004, TrimmedBlocks: 5005}, {Tenant: "team-b", StoredBytes: 5006}}
}
func (f fixed) Health() engine.Health { return engine.Health{State: engine.HealthReadOnly} }

// numbered gives every number of Stats a value of its own, so that a figure
// that reads the wrong field shows.
func numbered() engine.Stats {
	s := engine.Stats{
		GetStatus: map[engine.Status]int64{engine.StatusOK: 1001, engine.StatusMiss: 1002},
		PutStatus: map[engine.Status]int64{engine.StatusShed: 1003},
		PathRead:  "pread-direct", PathReason: "none",
	}
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		n := int64(i + 1)
		switch f := v.Field(i); {
		case v.Type().Field(i).Type == reflect.TypeFor[time.Duration]():
			f.SetInt(n * int64(time.Second))
		case f.CanInt():
			f.SetInt(n)
		case f.CanUint():
			f.SetUint(uint64(n))
		}
	}
	s.HostBounce = engine.DevicePathStats{Attempted: 3001, AttemptedBytes: 3002, Verified: 3003, VerifiedBytes: 3004, Corrupt: 3005, Failed: 3006, FellBack: 3007, FellBackBytes: 3008}
	s.CuFile = engine.DevicePathStats{Attempted: 3101, AttemptedBytes: 3102, Verified: 3103, VerifiedBytes: 3104, Corrupt: 3105, Failed: 3106, FellBack: 3107, FellBackBytes: 3108}
	s.DevicePut = engine.DevicePutStats{Copied: 3201, CopiedBytes: 3202, Failed: 3203, Sealed: 3204}
	s.Host = engine.HostStats{CapacityBytes: 4001, Bytes: 4002, Blocks: 4003, LentBytes: 4004, Hits: 4005, Misses: 4006, ServedBytes: 4007,
		VerifiedBytes: 4008, Inserted: 4009, Evicted: 4010, Rejected: 4011, Stale: 4012, Corrupt: 4013}
	s.Paths = []engine.PathState{{Name: "uring", Reads: 6001, Demoted: "wrong bytes"}, {Name: "pread", Current: true, Reads: 6002}}
	s.Scrub = engine.ScrubStats{
		Cycle: engine.ScrubCycle{Number: 2001}, LeftBytes: 2002, YieldedTime: 2003 * time.Second,
		Due: time.Unix(2004, 500_000_000), Last: engine.ScrubCycle{End: time.Unix(2005, 0)},
		Total: engine.ScrubTotals{Blocks: 2006, Bytes: 2007, CachedBytes: 2008, Bad: 2009, Damaged: 2010,
			Unreadable: 2011, Skipped: 2012, Transient: 2013},
	}
	return s
}

func TestGolden(t *testing.T) {
	got := expose(t, New(fixed{numbered()}, prometheus.Labels{"store": "kv0"}))
	golden := filepath.Join("testdata", "metrics.txt")
	if *update {
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("exposition differs from %s; run with -update and read the difference\n%s", golden, got)
	}
}

// TestEveryFigureReadsItsOwnField: all values differ, so two figures of one
// value read one field.
func TestEveryFigureReadsItsOwnField(t *testing.T) {
	s := numbered()
	seen := map[float64]string{}
	for _, d := range definitions {
		v := d.of(&s)
		if v == 0 || seen[v] != "" {
			t.Errorf("%s is %v, as is %q", d.name, v, seen[v])
		}
		seen[v] = d.name
	}
}

func TestStore(t *testing.T) {
	s, err := engine.Open(filepath.Join(t.TempDir(), "store"), engine.Options{CapacityBytes: 256 << 20, MaxBlockBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	text := expose(t, New(s, nil))
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"sealstone_capacity_bytes 2.68435456e+08\n", `sealstone_health{state="ok"} 1`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if closed := expose(t, New(s, nil)); !bytes.Contains(closed, []byte(`sealstone_health{state="closed"} 1`)) {
		t.Errorf("a closed store exposes\n%s", closed)
	}
}

func expose(t *testing.T, c *Collector) []byte {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	if err := r.Register(c); err != nil {
		t.Fatal(err)
	}
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}
