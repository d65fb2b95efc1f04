package load

import (
	"sync/atomic"
)

// History knows of each key what was written, over all runs that it was given
// to. A key has one writer at a time; any worker may read it.
type History struct{ keys []entry }

// NewHistory is that of so many keys that nobody has written.
func NewHistory(keys int) *History { return &History{keys: make([]entry, keys)} }

// entry is what is known of a key.
type entry struct {
	// least is the version below which nothing may be read any more, as it was
	// overwritten or deleted, and that acknowledged.
	least atomic.Uint64
	// most is the latest version that was sent, acknowledged or not.
	most atomic.Uint64
	// stored is what the writer knows: version least was acknowledged and
	// nothing that could have removed it was sent since. A miss is then an
	// eviction or a loss.
	stored bool
}

// next begins a write: a version that was never sent.
func (e *entry) next() uint64 {
	e.stored = false
	return e.most.Add(1)
}

// written says that a version was acknowledged.
func (e *entry) written(version uint64) {
	e.least.Store(version)
	e.stored = true
}

// removing begins a deletion, removed says that it was acknowledged.
func (e *entry) removing() { e.stored = false }
func (e *entry) removed()  { e.least.Store(e.most.Load() + 1) }

// Forget makes every key one of which nothing need be stored: after evictions.
// What may be read stays as it is.
func (h *History) Forget() {
	for i := range h.keys {
		h.keys[i].stored = false
	}
}

// Stored is how many keys must be found, if nothing was evicted or shed.
func (h *History) Stored() (n int) {
	for i := range h.keys {
		if h.keys[i].stored {
			n++
		}
	}
	return n
}
