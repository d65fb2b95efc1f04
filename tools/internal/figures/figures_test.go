package figures

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tiers/disk"
)

type source struct {
	stats   engine.Stats
	tenants []engine.TenantUse
}

func (s source) Stats() engine.Stats         { return s.stats }
func (s source) Tenants() []engine.TenantUse { return s.tenants }

// TestStatusesByName: whoever reads the figures knows no numbers of statuses.
func TestStatusesByName(t *testing.T) {
	var s source
	s.stats.GetStatus = map[engine.Status]int64{engine.StatusOK: 3, engine.StatusCorrupt: 1}
	s.stats.PutStatus = map[engine.Status]int64{engine.StatusShed: 2}
	s.stats.OpenDuration = 1500 * time.Millisecond
	s.tenants = []engine.TenantUse{{Tenant: "a", StoredBytes: 7}}
	f := Of(s, "/d")
	if f.Store.Gets["OK"] != 3 || f.Store.Gets["Corrupt"] != 1 || len(f.Store.Gets) != 2 || f.Store.Puts["Shed"] != 2 {
		t.Errorf("gets %v, puts %v", f.Store.Gets, f.Store.Puts)
	}
	if f.Store.Dir != "/d" || f.Store.OpenSeconds != 1.5 || len(f.Tenants) != 1 || f.Tenants[0].StoredBytes != 7 {
		t.Errorf("%+v", f)
	}
}

// TestNothingIsNull: a reader needs no case for a list or a table that is empty.
func TestNothingIsNull(t *testing.T) {
	for name, f := range map[string]Figures{"no store": Empty("/d"), "a new one": Of(source{}, "/d")} {
		p, err := json.Marshal(f)
		if err != nil || bytes.Contains(p, []byte("null")) {
			t.Errorf("%s: %s %v", name, p, err)
		}
	}
}

// TestPaths joins what the probe found with what became of it.
func TestPaths(t *testing.T) {
	var s source
	s.stats.Paths = []engine.PathState{{Name: "uring", Demoted: "wrong bytes", Reads: 4}, {Name: "pread", Current: true, Reads: 9}}
	want := []Path{{Name: "uring", State: "demoted", Reason: "wrong bytes", Reads: 4}, {Name: "pread", State: "in-use", Reads: 9}}
	for i, p := range Of(s, "").Paths {
		if p != want[i] {
			t.Errorf("unprobed: %+v, want %+v", p, want[i])
		}
	}
	s.stats.Probe = &disk.ProbeReport{Paths: []disk.ProbePath{
		{Name: "uring", State: disk.PathProven, ReadMiBs: 100}, {Name: "pread", State: disk.PathProven, ReadMiBs: 50},
		{Name: "other", State: disk.PathRefused, Reason: "no such call"},
	}}
	want[0].ReadMiB, want[1].ReadMiB = 100, 50
	want = append(want, Path{Name: "other", State: "refused", Reason: "no such call"})
	got := Of(s, "").Paths
	if len(got) != len(want) {
		t.Fatalf("%+v", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("probed: %+v, want %+v", got[i], want[i])
		}
	}
}
