package server

import (
	"slices"
	"time"

	"github.com/sealstone/sealstone/tools/internal/server/shm"
)

// Stats are figures of a server at one moment. Totals only grow and begin at
// New.
type Stats struct {
	// Connections are open now; the others are totals.
	Connections                          int
	ConnectionsMax                       int
	ConnectionsAccepted                  int64
	ConnectionsRefused                   int64 // over ConnectionsMax
	AcceptErrors                         int64
	ProtocolErrors, Panics, AuthFailures int64
	// IdleTimeouts, ReadTimeouts and WriteTimeouts are connections closed for it.
	IdleTimeouts, ReadTimeouts, WriteTimeouts int64
	BytesIn, BytesOut                         int64
	// ValueBytes are values on their way in now, ValueBytesMax the limit,
	// ValueWaits how often one had to wait for room.
	ValueBytes, ValueBytesMax, ValueWaits int64
	Handles, HandlesMax                   int
	// Overwrites are sets that put another value in the place of one.
	Overwrites int64
	// HiddenKeys are overwritten values that the store could not remove yet, and
	// that are answered as misses; BlindTenants those of which all keys are.
	HiddenKeys, HiddenKeysMax, BlindTenants int
	// HiddenTotal counts keys, BlindTotal tenants.
	HiddenTotal, BlindTotal int64
	// Shared is the memory that peers share with the server.
	Shared shm.Stats
	// Limits counts, by its name, how often a bound was reached.
	Limits map[string]int64
	// Kinds are figures of plain keys ("plain") and of blocks ("block").
	Kinds map[string]KindStats
	// Commands are those that were called, by name; "unknown" is all others.
	Commands map[string]CommandStats
	// BucketBounds are the upper bounds of CommandStats.Buckets.
	BucketBounds []time.Duration
}

// KindStats are figures of the values of one kind.
type KindStats struct {
	// Gets are values asked for; they end as Hits, Misses, Corrupt or Failed
	// (device, timeout, bounds). Only verified bytes are counted.
	Gets, Hits, Misses, Corrupt, Failed, VerifiedBytes int64
	// Puts are values sent; they end as Stored, Existed, Shed or PutFailed.
	// PutBytes are of the stored ones.
	Puts, Stored, Existed, Shed, PutFailed, PutBytes int64
}

// CommandStats are figures of one command.
type CommandStats struct {
	Calls, Errors int64
	// Busy is the time that all calls took together, without the time in the
	// sockets.
	Busy time.Duration
	// Buckets counts calls by the time they took; the last has no bound.
	Buckets []int64
}

// Stats gathers the figures. It does not wait.
func (s *Server) Stats() Stats {
	c := &s.count
	s.mu.Lock()
	open := len(s.conns)
	s.mu.Unlock()
	hiddenKeys, blind := s.hidden.counts()
	out := Stats{
		Connections: open, ConnectionsMax: s.o.ConnectionsMax,
		ConnectionsAccepted: c.connections.Load(), ConnectionsRefused: c.connectionsRefused.Load(), AcceptErrors: c.acceptErrors.Load(),
		ProtocolErrors: c.protocolErrors.Load(), Panics: c.panics.Load(), AuthFailures: c.authFailures.Load(),
		IdleTimeouts: c.idleTimeouts.Load(), ReadTimeouts: c.readTimeouts.Load(), WriteTimeouts: c.writeTimeouts.Load(),
		BytesIn: c.bytesIn.Load(), BytesOut: c.bytesOut.Load(),
		ValueBytes: s.memory.inUse(), ValueBytesMax: s.o.ValueMemoryBytes, ValueWaits: s.memory.waits.Load(),
		Handles: s.spaces.handles(), HandlesMax: s.o.HandlesMax, Overwrites: c.overwrites.Load(), Shared: s.shared.Stats(),
		HiddenKeys: hiddenKeys, HiddenKeysMax: s.o.HiddenKeysMax, BlindTenants: blind, HiddenTotal: s.hidden.total.Load(), BlindTotal: s.hidden.blown.Load(),
		Limits: map[string]int64{}, Kinds: map[string]KindStats{}, Commands: map[string]CommandStats{},
		BucketBounds: slices.Clone(bucketBounds[:]),
	}
	for i := limitNone + 1; i < limitCount; i++ {
		out.Limits[limitNames[i]] = c.limits[i].Load()
	}
	for i := range c.kinds {
		out.Kinds[kindNames[i]] = c.kinds[i].stats()
	}
	for _, d := range definitions() {
		if k := &c.commands[d.index]; k.calls.Load() > 0 {
			out.Commands[d.name] = k.stats()
		}
	}
	return out
}

func (k *kindCounters) stats() KindStats {
	return KindStats{
		Gets: k.gets.Load(), Hits: k.hits.Load(), Misses: k.misses.Load(), Corrupt: k.corrupt.Load(), Failed: k.failed.Load(),
		VerifiedBytes: k.bytesVerified.Load(),
		Puts:          k.puts.Load(), Stored: k.stored.Load(), Existed: k.existed.Load(), Shed: k.shed.Load(), PutFailed: k.putFailed.Load(),
		PutBytes: k.bytesPut.Load(),
	}
}

func (k *commandCounters) stats() CommandStats {
	out := CommandStats{Calls: k.calls.Load(), Errors: k.errors.Load(), Busy: time.Duration(k.nanoseconds.Load())}
	for i := range k.buckets {
		out.Buckets = append(out.Buckets, k.buckets[i].Load())
	}
	return out
}
