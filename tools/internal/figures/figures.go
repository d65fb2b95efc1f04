package figures

import (
	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tiers/disk"
)

// Source is what is asked for figures; an *engine.Store is one.
type Source interface {
	Stats() engine.Stats
	Tenants() []engine.TenantUse
}

// Empty are the figures where there is no store yet: each key is there.
func Empty(dir string) Figures {
	return Figures{
		Store: Store{Dir: dir, Gets: map[string]int64{}, Puts: map[string]int64{}},
		Paths: []Path{}, Tenants: []Tenant{},
	}
}

// Of gathers the figures of a store, which lies in dir. It does not wait.
func Of(s Source, dir string) Figures {
	st, out := s.Stats(), Empty(dir)
	out.Store, out.Host = storeOf(&st), hostOf(&st.Host)
	out.Store.Dir = dir
	out.Paths, out.DirectRefused = pathsOf(&st), st.PathReason
	for _, t := range s.Tenants() {
		out.Tenants = append(out.Tenants, Tenant(t))
	}
	return out
}

func storeOf(s *engine.Stats) Store {
	return Store{
		CapacityBytes: s.CapacityBytes, DiskBytes: s.DiskBytes, LiveBytes: s.LiveBytes, IndexBytes: s.IndexBytes, LogBytes: s.LogBytes,
		Segments: s.Segments, InflightBytes: s.InflightBytes, PendingBytes: s.PendingBytes, LeasedBytes: s.LeasedBytes,
		VerifiedBytes: s.VerifiedBytes, ServedBytes: s.ServedBytes, PutBytes: s.PutBytes, WrittenBytes: s.WrittenBytes,
		MatchBlocks: s.MatchBlocks, MatchHits: s.MatchHits, Gets: byStatus(s.GetStatus), Puts: byStatus(s.PutStatus),
		EvictedBlocks: s.EvictedBlocks, Quarantined: s.Quarantined, Rereads: s.Rereads,
		ScrubBytes: s.Scrub.Total.Bytes, ScrubBad: s.Scrub.Total.Bad, ScrubCycle: s.Scrub.Cycle.Number, ScrubLeftBytes: s.Scrub.LeftBytes,
		OpenSeconds: s.OpenDuration.Seconds(), AmplifiedWriting: s.WriteAmplification(),
	}
}

func hostOf(h *engine.HostStats) Host {
	return Host{
		CapacityBytes: h.CapacityBytes, Bytes: h.Bytes, Blocks: h.Blocks, Hits: h.Hits, Misses: h.Misses,
		VerifiedBytes: h.VerifiedBytes, Evicted: h.Evicted, Rejected: h.Rejected, Corrupt: h.Corrupt,
	}
}

func byStatus(m map[engine.Status]int64) map[string]int64 {
	out := map[string]int64{}
	for status, n := range m {
		out[status.String()] = n
	}
	return out
}

// pathViews joins what the probe found at the start with what became of it.
func pathsOf(s *engine.Stats) []Path {
	used := map[string]engine.PathState{}
	for _, p := range s.Paths {
		used[p.Name] = p
	}
	out := []Path{}
	if s.Probe == nil {
		for _, p := range s.Paths {
			out = append(out, usedPath(p))
		}
		return out
	}
	for _, p := range s.Probe.Paths {
		view := Path{Name: string(p.Name), State: string(p.State), Reason: p.Reason, ReadMiB: p.ReadMiBs}
		if p.State == disk.PathProven {
			if u, ok := used[string(p.Name)]; ok {
				view = usedPath(u)
				view.ReadMiB = p.ReadMiBs
			}
		}
		out = append(out, view)
	}
	return out
}

func usedPath(p engine.PathState) Path {
	view := Path{Name: p.Name, State: "proven", Reason: p.Refusal, Reads: p.Reads}
	if p.Current {
		view.State = "in-use"
	}
	if p.Demoted != "" {
		view.State, view.Reason = "demoted", p.Demoted
	}
	return view
}
