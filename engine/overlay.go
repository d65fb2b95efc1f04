package engine

import (
	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/wal"
)

// overlay holds what the log says and the index does not know yet: the puts
// and drops that are acknowledged, or about to be, and not applied. It is
// bounded by Options.MaxPendingBytes. Guarded by Store.mu.
type overlay struct {
	keys map[index.Key][]overlayOp // oldest first
}

type overlayOp struct {
	lsn   wal.LSN
	put   bool        // else a drop
	seq   uint64      // of the put, or up to which the drop reaches
	entry index.Entry // of a put
}

// view is what the overlay says of a key. At most one of found and dropSeq
// matters: with found false, an index entry counts only above dropSeq.
type view struct {
	entry   index.Entry
	found   bool
	dropSeq uint64
}

func newOverlay() overlay { return overlay{keys: map[index.Key][]overlayOp{}} }

// look reads the newest operation first; a drop hides puts up to its own
// sequence only (rule overlayseq): its record may stand behind a newer put.
func (o *overlay) look(k index.Key) view {
	var v view
	ops := o.keys[k]
	for i := len(ops) - 1; i >= 0; i-- {
		op := &ops[i]
		switch {
		case !op.put:
			v.dropSeq = max(v.dropSeq, op.seq)
		case op.seq > v.dropSeq:
			v.entry, v.found = op.entry, true
			return v
		}
	}
	return v
}

func (o *overlay) add(k index.Key, op overlayOp) { o.keys[k] = append(o.keys[k], op) }

// applied forgets the operations on k before position upTo.
func (o *overlay) applied(k index.Key, upTo wal.LSN) {
	ops := o.keys[k]
	n := 0
	for n < len(ops) && ops[n].lsn < upTo {
		n++
	}
	if n == len(ops) {
		delete(o.keys, k)
		return
	}
	o.keys[k] = ops[n:]
}

// withdraw forgets what stands at or behind position from: what a failed
// fsync may have lost.
func (o *overlay) withdraw(from wal.LSN) {
	for k, ops := range o.keys {
		n := len(ops)
		for n > 0 && ops[n-1].lsn >= from {
			n--
		}
		if n == 0 {
			delete(o.keys, k)
		} else {
			o.keys[k] = ops[:n]
		}
	}
}

// renumber takes over the positions of records that were logged anew.
func (o *overlay) renumber(recs []*record) {
	next := map[index.Key]int{}
	for _, r := range recs {
		if r.Kind != recordPut && r.Kind != recordDrop {
			continue
		}
		if ops, i := o.keys[r.Key], next[r.Key]; i < len(ops) {
			ops[i].lsn = r.lsn
			next[r.Key] = i + 1
		}
	}
}
