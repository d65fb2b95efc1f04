package engine

import (
	"fmt"
	"sync/atomic"
	"testing"
)

// A history is what several goroutines asked of a store and heard, each call
// with the times of its begin and end by one clock that only counts. What is
// held against it is what any order of the calls that agrees with the times
// could give: a block that was stored, and that nobody can have removed since,
// is there; one that was certainly removed does not come back; the first put
// of a key wins. Every put has a version of its own.

type callKind string

const (
	callPut        callKind = "put"
	callGet        callKind = "get" // and whatever else only asks for a block
	callDrop       callKind = "drop"
	callBump       callKind = "bump"
	callEvict      callKind = "evict"
	callQuarantine callKind = "quarantine"
)

// call is one call of a history, about one key, or of all keys.
type call struct {
	kind       callKind
	key        int // of evict and bump: all
	version    int // of a put, and what a get brought; 0: unknown which
	status     Status
	existed    bool
	begin, end int64
}

func (c call) String() string {
	return fmt.Sprintf("%s of %d [%d,%d]: version %d %s existed=%v", c.kind, c.key, c.begin, c.end, c.version, c.status, c.existed)
}

// historyClock orders begins and ends.
type historyClock struct{ ticks atomic.Int64 }

func (c *historyClock) tick() int64 { return c.ticks.Add(1) }

// concerns reports whether a call is about a key.
func (c call) concerns(key int) bool {
	return c.key == key || c.kind == callBump || c.kind == callEvict
}

// stores reports whether a put made its version the key's.
func (c call) stores() bool { return c.kind == callPut && c.status == StatusOK && !c.existed }

// sawNothing: at some time within the call the key held nothing.
func (c call) sawNothing() bool {
	switch c.kind {
	case callGet, callDrop:
		return c.status == StatusMiss
	case callPut:
		return c.stores()
	}
	return false
}

// sawBlock: at some time within the call the key held a block.
func (c call) sawBlock() bool {
	switch c.kind {
	case callGet, callDrop:
		return c.status == StatusOK
	case callPut:
		return c.status == StatusOK && c.existed
	}
	return false
}

// mayRemove: after the call the key may hold nothing.
func (c call) mayRemove() bool {
	switch c.kind {
	case callDrop, callBump, callEvict, callQuarantine:
		return true
	}
	return false
}

// removes: what the key held before the call it does not hold after it.
func (c call) removes() bool {
	return c.sawNothing() || (c.kind == callDrop || c.kind == callBump) && c.status == StatusOK
}

// contradictions are the calls whose answers no order explains.
func contradictions(history []call, keys int) (out []string) {
	for key := range keys {
		var own []call
		for _, c := range history {
			if c.concerns(key) {
				own = append(own, c)
			}
		}
		out = append(out, contradictionsOf(own)...)
	}
	return out
}

func contradictionsOf(history []call) (out []string) {
	for _, c := range history {
		switch {
		case c.sawNothing():
			if p := stillThere(history, c); p != nil {
				out = append(out, fmt.Sprintf("%s: LOST: nothing can have removed what %s stored", c, p))
			}
		case c.sawBlock() && !canHold(history, c):
			out = append(out, fmt.Sprintf("%s: RESURRECTED: what it saw was removed before, or never stored", c))
		}
	}
	return out
}

// stillThere finds a put that ended before the call and whose block nothing
// can have removed by its end, or nil.
func stillThere(history []call, c call) *call {
	for i, p := range history {
		if !p.stores() || p.end > c.begin {
			continue
		}
		removed := false
		for _, r := range history {
			removed = removed || r.mayRemove() && r.begin != c.begin && r.end > p.begin && r.begin < c.end
		}
		if !removed {
			return &history[i]
		}
	}
	return nil
}

// canHold reports whether a put had begun by the call's end whose block nobody
// had certainly removed by its begin.
func canHold(history []call, c call) bool {
	for _, p := range history {
		if !p.stores() || p.begin > c.end || c.version != 0 && c.kind == callGet && p.version != c.version {
			continue
		}
		gone := false
		for _, r := range history {
			gone = gone || r.removes() && r.begin > p.end && r.end < c.begin
		}
		if !gone {
			return true
		}
	}
	return false
}

// TestContradictions: the judge of histories sees what it is there to see.
func TestContradictions(t *testing.T) {
	put := func(v int, existed bool, begin, end int64) call {
		return call{kind: callPut, version: v, status: StatusOK, existed: existed, begin: begin, end: end}
	}
	get := func(v int, st Status, begin, end int64) call {
		return call{kind: callGet, version: v, status: st, begin: begin, end: end}
	}
	other := func(k callKind, st Status, begin, end int64) call {
		return call{kind: k, status: st, begin: begin, end: end}
	}
	for _, c := range []struct {
		name    string
		history []call
		want    int
	}{
		{"stored and found", []call{put(1, false, 1, 2), get(1, StatusOK, 3, 4)}, 0},
		{"stored and missing", []call{put(1, false, 1, 2), get(0, StatusMiss, 3, 4)}, 1},
		{"missing while it is stored", []call{put(1, false, 1, 4), get(0, StatusMiss, 2, 5)}, 0},
		{"found before it is acknowledged", []call{put(1, false, 1, 4), get(1, StatusOK, 2, 3)}, 0},
		{"found before it was put", []call{get(1, StatusOK, 1, 2), put(1, false, 3, 4)}, 1},
		{"what nobody put", []call{put(1, false, 1, 2), get(2, StatusOK, 3, 4)}, 1},
		{"a refused put is seen", []call{{kind: callPut, version: 1, status: StatusShed, begin: 1, end: 2}, get(1, StatusOK, 3, 4)}, 1},
		{"dropped and missing", []call{put(1, false, 1, 2), other(callDrop, StatusOK, 3, 4), get(0, StatusMiss, 5, 6)}, 0},
		{"dropped and found", []call{put(1, false, 1, 2), other(callDrop, StatusOK, 3, 4), get(1, StatusOK, 5, 6)}, 1},
		{"found while it is dropped", []call{put(1, false, 1, 2), other(callDrop, StatusOK, 3, 6), get(1, StatusOK, 4, 7)}, 0},
		{"nothing to drop", []call{put(1, false, 1, 2), other(callDrop, StatusMiss, 3, 4)}, 1},
		{"dropped twice", []call{put(1, false, 1, 2), other(callDrop, StatusOK, 3, 4), other(callDrop, StatusOK, 5, 6)}, 1},
		{"two puts at once, one wins", []call{put(1, false, 1, 4), put(2, true, 2, 5)}, 0},
		{"two puts at once, both win", []call{put(1, false, 1, 2), put(2, false, 3, 4)}, 1},
		{"existed after its drop", []call{put(1, false, 1, 2), other(callDrop, StatusOK, 3, 4), put(2, true, 5, 6)}, 1},
		{"the old version after a new one", []call{put(1, false, 1, 2), other(callDrop, StatusOK, 3, 4), put(2, false, 5, 6), get(1, StatusOK, 7, 8)}, 1},
		{"evicted", []call{put(1, false, 1, 2), other(callEvict, StatusOK, 3, 4), get(0, StatusMiss, 5, 6)}, 0},
		{"moved on", []call{put(1, false, 1, 2), other(callEvict, StatusOK, 3, 4), get(1, StatusOK, 5, 6)}, 0},
		{"missed once, then found", []call{put(1, false, 1, 2), other(callEvict, StatusOK, 3, 4), get(0, StatusMiss, 5, 6), get(1, StatusOK, 7, 8)}, 1},
		{"evicted before it was put", []call{other(callEvict, StatusOK, 1, 2), put(1, false, 3, 4), get(0, StatusMiss, 5, 6)}, 1},
		{"of an old epoch", []call{put(1, false, 1, 2), other(callBump, StatusOK, 3, 4), get(1, StatusOK, 5, 6)}, 1},
		{"put while the epoch changes", []call{put(1, false, 1, 4), other(callBump, StatusOK, 2, 3), get(0, StatusMiss, 5, 6)}, 0},
		{"quarantined", []call{put(1, false, 1, 2), other(callQuarantine, StatusOK, 3, 4), get(0, StatusMiss, 5, 6)}, 0},
		{"asked, of no known version", []call{put(1, false, 1, 2), get(0, StatusOK, 3, 4)}, 0},
	} {
		if got := contradictions(c.history, 1); len(got) != c.want {
			t.Errorf("%s: %q, want %d", c.name, got, c.want)
		}
	}
}
