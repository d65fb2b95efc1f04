package web

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/tools/internal/server"
)

// maxEvents is how many events a status carries.
const maxEvents = 50

func (s *site) status(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	e := json.NewEncoder(w)
	e.SetIndent("", " ")
	_ = e.Encode(s.current()) // a client that went away takes its answer with it
}

// current gathers the status of this moment.
func (s *site) current() Status {
	m := s.o.Now()
	now := s.o.Clock()
	alive, _ := s.o.Alive()
	out := Status{
		Schema: SchemaVersion, Version: s.o.Version, Time: now.UTC(), UptimeSeconds: now.Sub(s.o.Started).Seconds(),
		Phase: m.Phase, PhaseDetail: m.Detail, Alive: alive, Health: Health{State: "unknown", Reasons: []string{}},
		Store: StoreView{Dir: s.o.Dir, Gets: map[string]int64{}, Puts: map[string]int64{}}, Paths: []PathView{}, GPUs: m.GPUs, Tenants: []TenantView{}, Events: []EventView{},
		Server: ServerView{Limits: map[string]int64{}, Kinds: map[string]KindView{}, Commands: map[string]CommandView{}},
	}
	if out.GPUs.Pairs == nil {
		out.GPUs.Pairs = []GPUPair{}
	}
	if m.Store != nil {
		out.addStore(m.Store)
	}
	if m.Server != nil {
		out.Server = serverView(m.Server())
	}
	return out
}

func (out *Status) addStore(store Store) {
	h, st := store.Health(), store.Stats()
	out.Health.State = h.State.String()
	out.Health.Reasons = append(out.Health.Reasons, h.Reasons...)
	dir := out.Store.Dir
	out.Store, out.Host = storeView(&st), hostView(&st.Host)
	out.Store.Dir = dir
	out.Paths, out.DirectRefused = pathViews(&st), st.PathReason
	for _, t := range store.Tenants() {
		out.Tenants = append(out.Tenants, TenantView(t))
	}
	events := store.Events(0)
	slices.Reverse(events)
	for _, e := range events[:min(len(events), maxEvents)] {
		out.Events = append(out.Events, EventView{e.Seq, e.Time.UTC(), e.Kind.String(), e.Message, advice[e.Kind]})
	}
}

func storeView(s *engine.Stats) StoreView {
	return StoreView{
		CapacityBytes: s.CapacityBytes, DiskBytes: s.DiskBytes, LiveBytes: s.LiveBytes, IndexBytes: s.IndexBytes, LogBytes: s.LogBytes,
		Segments: s.Segments, InflightBytes: s.InflightBytes, PendingBytes: s.PendingBytes, LeasedBytes: s.LeasedBytes,
		VerifiedBytes: s.VerifiedBytes, ServedBytes: s.ServedBytes, PutBytes: s.PutBytes, WrittenBytes: s.WrittenBytes,
		MatchBlocks: s.MatchBlocks, MatchHits: s.MatchHits, Gets: byStatus(s.GetStatus), Puts: byStatus(s.PutStatus),
		EvictedBlocks: s.EvictedBlocks, Quarantined: s.Quarantined, Rereads: s.Rereads,
		ScrubBytes: s.Scrub.Total.Bytes, ScrubBad: s.Scrub.Total.Bad, ScrubCycle: s.Scrub.Cycle.Number, ScrubLeftBytes: s.Scrub.LeftBytes,
		OpenSeconds: s.OpenDuration.Seconds(), AmplifiedWriting: s.WriteAmplification(),
	}
}

func hostView(h *engine.HostStats) HostView {
	return HostView{
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
func pathViews(s *engine.Stats) []PathView {
	used := map[string]engine.PathState{}
	for _, p := range s.Paths {
		used[p.Name] = p
	}
	out := []PathView{}
	if s.Probe == nil {
		for _, p := range s.Paths {
			out = append(out, usedPath(p))
		}
		return out
	}
	for _, p := range s.Probe.Paths {
		view := PathView{Name: string(p.Name), State: string(p.State), Reason: p.Reason, ReadMiB: p.ReadMiBs}
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

func usedPath(p engine.PathState) PathView {
	view := PathView{Name: p.Name, State: "proven", Reason: p.Refusal, Reads: p.Reads}
	if p.Current {
		view.State = "in-use"
	}
	if p.Demoted != "" {
		view.State, view.Reason = "demoted", p.Demoted
	}
	return view
}

func serverView(s server.Stats) ServerView {
	out := ServerView{
		Connections: s.Connections, ConnectionsMax: s.ConnectionsMax, Accepted: s.ConnectionsAccepted, Refused: s.ConnectionsRefused,
		AuthFailures: s.AuthFailures, ProtocolErrors: s.ProtocolErrors, BytesIn: s.BytesIn, BytesOut: s.BytesOut, Shared: SharedView(s.Shared),
		Limits: s.Limits, Kinds: map[string]KindView{}, Commands: map[string]CommandView{},
	}
	for name, k := range s.Kinds {
		out.Kinds[name] = KindView{
			Gets: k.Gets, Hits: k.Hits, Misses: k.Misses, Corrupt: k.Corrupt, Failed: k.Failed, VerifiedBytes: k.VerifiedBytes,
			Puts: k.Puts, Stored: k.Stored, Existed: k.Existed, Shed: k.Shed, PutBytes: k.PutBytes,
		}
	}
	for name, c := range s.Commands {
		out.Commands[name] = CommandView{Calls: c.Calls, Errors: c.Errors, BusySeconds: c.Busy.Seconds()}
	}
	return out
}
