package server

import (
	"sync/atomic"
	"time"
)

// bucketBounds are the upper bounds of the latency histogram's buckets.
var bucketBounds = [...]time.Duration{
	50 * time.Microsecond, 100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond,
	25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 10 * time.Second,
}

// commandCounters are of one command.
type commandCounters struct {
	calls, errors, nanoseconds atomic.Int64
	buckets                    [len(bucketBounds) + 1]atomic.Int64
}

// limit names a bound that was reached.
type limit uint8

const (
	limitNone limit = iota
	limitValueBytes
	limitCommandBytes
	limitMemory
	limitArguments
	limitHandles
	limitLeases
	limitRegions
	limitKeyBytes

	limitCount
)

var limitNames = [limitCount]string{"none", "value-bytes", "command-bytes", "memory", "arguments", "handles", "leases", "regions", "key-bytes"}

// kind tells plain keys from blocks of a layout.
type kind uint8

const (
	kindPlain kind = iota
	kindBlock

	kindCount
)

var kindNames = [kindCount]string{"plain", "block"}

// kindCounters are of the values of one kind.
type kindCounters struct {
	gets, hits, misses, corrupt, failed atomic.Int64
	bytesVerified                       atomic.Int64
	puts, stored, existed, shed         atomic.Int64
	putFailed, bytesPut                 atomic.Int64
}

type counters struct {
	connections, connectionsRefused, acceptErrors atomic.Int64
	protocolErrors, panics                        atomic.Int64
	idleTimeouts, readTimeouts, writeTimeouts     atomic.Int64
	authFailures                                  atomic.Int64
	bytesIn, bytesOut                             atomic.Int64
	readAheads                                    atomic.Int64
	overwrites                                    atomic.Int64
	limits                                        [limitCount]atomic.Int64
	kinds                                         [kindCount]kindCounters
	commands                                      [commandsMax]commandCounters
}

func (c *counters) limit(l limit) { c.limits[l].Add(1) }

func (c *counters) command(index int, took time.Duration, failed bool) {
	k := &c.commands[index]
	k.calls.Add(1)
	if failed {
		k.errors.Add(1)
	}
	k.nanoseconds.Add(int64(took))
	i := 0
	for i < len(bucketBounds) && took > bucketBounds[i] {
		i++
	}
	k.buckets[i].Add(1)
}
