package web

import (
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/access"
	"github.com/sealstone/sealstone/tools/internal/server"
)

// Phase is where in its life a process is.
type Phase string

// The phases, in order.
const (
	PhaseOpening  Phase = "opening"  // the store is being opened
	PhaseServing  Phase = "serving"  // requests are answered
	PhaseStopping Phase = "stopping" // no new connection is taken
)

// Store is what the handlers ask; an *engine.Store is one.
type Store interface {
	Stats() engine.Stats
	Health() engine.Health
	Events(since uint64) []engine.Event
	Tenants() []engine.TenantUse
}

// Moment is the process at one moment.
type Moment struct {
	Phase Phase
	// Detail is a few words beside the phase, such as how far opening is.
	Detail string
	// Store and Server are nil until the store is open.
	Store  Store
	Server func() server.Stats
	// GPUs is what was found of GPUs.
	GPUs GPUs
}

// Options says what is shown, and to whom.
type Options struct {
	// Now gives the process at this moment. Required; it must not wait.
	Now func() Moment
	// Alive tells whether the process gets on, and if not, why. It must not
	// wait. Required.
	Alive func() (bool, string)
	// Tokens are who may read /metrics and /status; nil: everybody.
	// OpenMetrics leaves /metrics open all the same.
	Tokens      *access.Table
	OpenMetrics bool
	// PProf serves profiles at /debug/pprof/, to tokens with the right admin.
	PProf bool
	// Dir is the store's directory, Version the program's, Started when it began.
	Dir, Version string
	Started      time.Time
	// Clock is the time of answers. Default time.Now.
	Clock func() time.Time
}
