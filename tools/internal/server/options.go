package server

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/access"
	"github.com/sealstone/sealstone/tools/internal/server/shm"
)

// Options configures a Server. The zero value of each field means its default.
type Options struct {
	// Tokens are who may log in. Without it everybody is access.Open().
	Tokens *access.Table
	// ConnectionsMax bounds the connections of all listeners. Default 2048.
	ConnectionsMax int
	// HandlesMax bounds the namespaces that KV.OPEN has opened. Default 4096.
	HandlesMax int
	// HiddenKeysMax bounds the plain keys that were overwritten by a value that
	// was shed, while the store can not log the removal of the old one. Past it
	// a tenant's plain keys are all misses, for good. Default 65536.
	HiddenKeysMax int
	// ValueBytesMax is the longest value that is kept; longer ones are shed.
	// The default and the most is engine.MaxBlockBytes.
	ValueBytesMax int64
	// PipelinedBytesMax bounds the arguments of one command together. The
	// default is 256 MiB, the least ValueBytesMax and a MiB. Commands that
	// were sent ahead of their turn wait in the socket.
	PipelinedBytesMax int64
	// ValueMemoryBytes bounds the memory for values on their way in, of all
	// connections; values that find no room within a second are shed. The
	// default is 512 MiB.
	ValueMemoryBytes int64
	// ReadTimeout is how long a command that has begun may take for each MiB
	// of it. Default 30 s.
	ReadTimeout time.Duration
	// WriteTimeout is how long a peer may take to read each MiB of an answer.
	// Default 30 s.
	WriteTimeout time.Duration
	// IdleTimeout closes connections without a command for as long. The
	// default, 0, is never: some clients do not connect again.
	IdleTimeout time.Duration
	// RequestTimeout bounds what a command waits for the store. Default 30 s.
	RequestTimeout time.Duration
	// NoLeaseOnExists answers EXISTS without keeping the blocks for the GET
	// that is to follow.
	NoLeaseOnExists bool
	// VerifyOnExists answers EXISTS by reading and verifying the value: for
	// clients that can not stand a miss after it.
	VerifyOnExists bool
	// Regions bounds the memory that peers share. Its zero value is its
	// defaults.
	Regions shm.Limits
	// LeaseDuration is the engine.Options.LeaseDuration of the store, which
	// KV.MATCH tells clients. Default 60 s, as there.
	LeaseDuration time.Duration
	// Logger gets one line per change of state. The default is silence.
	Logger *slog.Logger
	// Version is what INFO says of the program.
	Version string
}

func orDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// withDefaults fills in what was left out.
func (o Options) withDefaults() (Options, error) {
	orDefault(&o.ConnectionsMax, 2048)
	orDefault(&o.HandlesMax, 4096)
	orDefault(&o.HiddenKeysMax, 64<<10)
	orDefault(&o.ValueBytesMax, engine.MaxBlockBytes)
	orDefault(&o.PipelinedBytesMax, 256<<20)
	orDefault(&o.ValueMemoryBytes, 512<<20)
	orDefault(&o.ReadTimeout, 30*time.Second)
	orDefault(&o.WriteTimeout, 30*time.Second)
	orDefault(&o.RequestTimeout, 30*time.Second)
	orDefault(&o.LeaseDuration, time.Minute)
	orDefault(&o.Version, "dev")
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	for _, c := range []struct {
		name       string
		value, min int64
	}{
		{"ConnectionsMax", int64(o.ConnectionsMax), 1},
		{"HandlesMax", int64(o.HandlesMax), 1},
		{"HiddenKeysMax", int64(o.HiddenKeysMax), 1},
		{"ValueBytesMax", o.ValueBytesMax, 1},
		{"PipelinedBytesMax", o.PipelinedBytesMax, o.ValueBytesMax + 1<<20},
		{"ValueMemoryBytes", o.ValueMemoryBytes, o.ValueBytesMax + 1<<20},
		{"ReadTimeout", int64(o.ReadTimeout), 1},
		{"WriteTimeout", int64(o.WriteTimeout), 1},
		{"IdleTimeout", int64(o.IdleTimeout), 0},
		{"LeaseDuration", int64(o.LeaseDuration), 1},
		{"RequestTimeout", int64(o.RequestTimeout), 1},
	} {
		if c.value < c.min {
			return o, fmt.Errorf("%w: %s is %d, the least is %d", ErrOptions, c.name, c.value, c.min)
		}
	}
	if o.ValueBytesMax > engine.MaxBlockBytes {
		return o, fmt.Errorf("%w: ValueBytesMax is %d, the most is %d", ErrOptions, o.ValueBytesMax, int64(engine.MaxBlockBytes))
	}
	return o, nil
}
