package web

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/sealstone/sealstone/tools/internal/figures"
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
		Figures: figures.Empty(s.o.Dir), GPUs: m.GPUs, Events: []EventView{},
		Server: server.View{Limits: map[string]int64{}, Kinds: map[string]server.KindView{}, Commands: map[string]server.CommandView{}},
	}
	if out.GPUs.Pairs == nil {
		out.GPUs.Pairs = []GPUPair{}
	}
	if m.Store != nil {
		out.addStore(m.Store)
	}
	if m.Server != nil {
		out.Server = m.Server().View()
	}
	return out
}

func (out *Status) addStore(store Store) {
	h := store.Health()
	out.Health.State = h.State.String()
	out.Health.Reasons = append(out.Health.Reasons, h.Reasons...)
	out.Figures = figures.Of(store, out.Store.Dir)
	events := store.Events(0)
	slices.Reverse(events)
	for _, e := range events[:min(len(events), maxEvents)] {
		out.Events = append(out.Events, EventView{e.Seq, e.Time.UTC(), e.Kind.String(), e.Message, advice[e.Kind]})
	}
}
