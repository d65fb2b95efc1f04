package web

import (
	"time"

	"github.com/sealstone/sealstone/tools/internal/figures"
	"github.com/sealstone/sealstone/tools/internal/server"
)

// SchemaVersion is that of Status: it grows when a field changes its meaning or
// goes away, not when one is added.
const SchemaVersion = 1

// Status is the answer of /status. Bytes and times carry their unit in the
// name; totals begin when the process did.
type Status struct {
	Schema        int       `json:"schema"`
	Version       string    `json:"version"`
	Time          time.Time `json:"time"`
	UptimeSeconds float64   `json:"uptime_seconds"`
	Phase         Phase     `json:"phase"`
	PhaseDetail   string    `json:"phase_detail"`
	Alive         bool      `json:"alive"`
	Health        Health    `json:"health"`
	figures.Figures
	GPUs   GPUs        `json:"gpus"`
	Server server.View `json:"server"`
	// Events are the latest, the newest first.
	Events []EventView `json:"events"`
}

// Health is that of the store.
type Health struct {
	State   string   `json:"state"` // ok, read-only, all-miss, closed, or unknown while it opens
	Reasons []string `json:"reasons"`
}

// GPUs is what is known of GPUs.
type GPUs struct {
	// State is off (nobody looked), looking, none, found or failed.
	State  string    `json:"state"`
	Reason string    `json:"reason"`
	Pairs  []GPUPair `json:"pairs"`
}

// GPUPair is one GPU and the store's directory.
type GPUPair struct {
	GPU    string `json:"gpu"`
	Path   string `json:"path"`   // cufile, host-bounce or none
	Reason string `json:"reason"` // why no better one
}

// EventView is an event and what to do about it.
type EventView struct {
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	Message string    `json:"message"`
	Advice  string    `json:"advice"` // "": nothing is to be done
}
