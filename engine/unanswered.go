package engine

import (
	"fmt"
	"math"

	"github.com/sealstone/sealstone/engine/layout"
)

// unansweredMax is how many calls in a row may find nothing of a namespace
// before the store says so. A cache that never hits looks like any cold one but
// for that.
const unansweredMax = 1000

// noteLookup counts calls that ask for blocks and find none. One that finds
// something begins the row anew.
func (n *Namespace) noteLookup(found []lookupResult) {
	if n.space == nil || len(found) == 0 {
		return
	}
	row := &n.space.unanswered
	for i := range found {
		if found[i].ok || found[i].bad {
			if row.Load() != 0 {
				row.Store(0)
				n.space.told.Store(false)
			}
			return
		}
	}
	if row.Add(1)%unansweredMax == 0 && n.s.liveFrom(0, math.MaxUint64) > 0 && n.space.told.CompareAndSwap(false, true) {
		n.tellUnanswered()
	}
}

// tellUnanswered is loud: what is put under keys that nobody asks for costs
// writes and room, and no answer is ever wrong, so nothing else would show it.
func (n *Namespace) tellUnanswered() {
	msg := fmt.Sprintf("%d calls in a row asked namespace %d of tenant %q for blocks and found none, while the store holds some: "+
		"unless all prompts are new, the hashes asked for are not those that were put. Give the engine a fixed hash seed, and the same settings at each start",
		n.space.unanswered.Load(), n.info.Number, n.info.Tenant)
	if number, diffs := n.nearestOther(); number != 0 {
		msg += fmt.Sprintf("; namespace %d of the same model differs in %v", number, diffs)
	}
	n.s.events.add(n.s.o.private.now(), EventUnanswered, msg)
	n.s.o.Logger.Warn("sealstone: "+msg, "event", EventUnanswered.String(), "dir", n.s.dir)
}

// nearestOther is the tenant's other namespace of the same model that differs
// in the fewest fields, or 0.
func (n *Namespace) nearestOther() (number uint32, best []layout.Difference) {
	for _, m := range n.s.meta.Namespaces() {
		if m.Tenant != n.info.Tenant || m.Number == n.info.Number || !layout.Near(m.Layout, n.layout) {
			continue
		}
		if d := layout.Diff(m.Layout, n.layout); number == 0 || len(d) < len(best) {
			number, best = m.Number, d
		}
	}
	return number, best
}

// unansweredLocked is the longest row of any namespace.
func (s *Store) unansweredLocked() (row int64) {
	for _, sp := range s.spaces {
		row = max(row, sp.unanswered.Load())
	}
	return row
}
