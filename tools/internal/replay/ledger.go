package replay

import (
	"cmp"
	"slices"

	"github.com/sealstone/sealstone/tools/internal/blockgen"
	"github.com/sealstone/sealstone/tools/internal/trace"
)

// ledger is the parent's account of what the child's store promised.
type ledger struct {
	trace  *trace.Trace
	blocks map[blockgen.Ref]*entry
	// putting counts the puts that were announced and not answered.
	putting int
	// begun are the requests of which a put was announced.
	begun    map[int]bool
	counters Counters
}

// entry is what is known of one block.
type entry struct {
	acked   bool // a put was acknowledged, and no drop was begun since
	dropped bool // a drop was acknowledged, and no put was begun since
}

func newLedger(t *trace.Trace) *ledger {
	return &ledger{trace: t, blocks: map[blockgen.Ref]*entry{}, begun: map[int]bool{}}
}

func (l *ledger) at(request, block int) *entry {
	r := l.trace.Requests[request]
	ref := blockgen.Ref{Scope: r.Scope, ID: r.IDs[block]}
	e := l.blocks[ref]
	if e == nil {
		e = &entry{}
		l.blocks[ref] = e
	}
	return e
}

// apply takes a message into the account. Messages that name what is not in
// the trace are ignored: they can only come from a child of another program.
func (l *ledger) apply(m message) {
	if m.Counters != nil {
		l.counters = *m.Counters
	}
	if m.Request < 0 || m.Request >= len(l.trace.Requests) {
		return
	}
	valid := func(at int) bool { return at >= 0 && at < len(l.trace.Requests[m.Request].IDs) }
	for _, at := range slices.DeleteFunc(slices.Clone(m.Blocks), func(at int) bool { return !valid(at) }) {
		e := l.at(m.Request, at)
		switch m.Kind {
		case msgPut:
			e.dropped = false
		case msgAcked:
			e.acked = e.acked || slices.Contains(m.Acked, at)
		case msgDropping:
			e.acked = false
		case msgDropped:
			e.dropped = true
		}
	}
	switch m.Kind {
	case msgPut:
		l.putting++
		l.begun[m.Request] = true
	case msgAcked:
		l.putting--
	}
}

// refs lists the blocks that were ever put, in a fixed order.
func (l *ledger) refs() []blockgen.Ref {
	refs := make([]blockgen.Ref, 0, len(l.blocks))
	for ref := range l.blocks {
		refs = append(refs, ref)
	}
	slices.SortFunc(refs, func(a, b blockgen.Ref) int {
		return cmp.Or(cmp.Compare(a.Scope, b.Scope), cmp.Compare(a.ID, b.ID))
	})
	return refs
}

// judge counts what a block's state after the reopen means for the promises.
func (l *ledger) judge(k *KillReport, ref blockgen.Ref, found, right bool) {
	e := l.blocks[ref]
	switch {
	case found && !right:
		k.ReopenWrong++
	case e.acked && found:
		k.ReopenFound++
	case e.acked:
		k.ReopenMissing++
	case e.dropped && found:
		k.Resurrected++
	case found:
		k.UnacknowledgedFound++
	}
}

// totals counts what was promised.
func (l *ledger) totals(k *KillReport) {
	for _, e := range l.blocks {
		if e.acked {
			k.Acknowledged++
		}
		if e.dropped {
			k.Dropped++
		}
	}
}
