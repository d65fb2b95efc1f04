package settings

import (
	"time"

	"github.com/sealstone/sealstone/tools/internal/bytesize"
)

// Off is the value of an address at which nothing is to listen.
const Off = "off"

// Settings are the values of all settings of a server. A size of 0 stands for
// the engine's own default, which depends on the machine.
type Settings struct {
	Dir string
	// Where peers and people come in.
	Listen, HTTP, Unix           string
	Tokens                       string
	TLSCert, TLSKey, TLSClientCA string
	OpenMetrics, PProf           bool
	// What the process itself does.
	LogLevel, LogFormat      string
	StopTimeout, WedgedAfter time.Duration
	GPU                      bool

	Store  Store
	Limits Limits
}

// Store are the settings of the engine; engine.Options says what each means.
type Store struct {
	Capacity, FreeFloor, MaxBlock, HostCache bytesize.Size
	Inflight, Pending, IndexCache, Hint      bytesize.Size
	SyncBytes, WriteBudget, ScrubRate        bytesize.Size
	SyncInterval, CallTimeout                time.Duration
	LeaseDuration, ScrubCycle                time.Duration
	LeaseShare, MoveShare                    float64
	ReadWorkers, OpenFiles                   int
	Path, OnIncompatible, Admission          string
	NoSharing                                bool
}

// Limits bound what peers may do; server.Options says what each means.
type Limits struct {
	ConnectionsMax, HandlesMax             int
	HiddenKeysMax                          int
	RegionsMax, RegionsMaxAll              int
	RegionBytesMax, RegionBytesMaxAll      bytesize.Size
	PipelinedMax, ValueMax, ValueMemory    bytesize.Size
	ReadTimeout, WriteTimeout, IdleTimeout time.Duration
	RequestTimeout                         time.Duration
	Exists                                 string
}

// What EXISTS does beside looking; the values of Limits.Exists.
const (
	ExistsLease  = "lease"  // keep the value for the GET that follows
	ExistsVerify = "verify" // read and verify it too
	ExistsPlain  = "plain"  // nothing
)
