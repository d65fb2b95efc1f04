package killloop

import (
	"fmt"
	"slices"

	"github.com/sealstone/sealstone/engine"
)

// ledger is what the parent knows of the store: for each key what it may hold.
type ledger struct {
	keys     [keys]state
	evicting bool
	totals   Totals
}

// state is what one key may hold.
type state struct {
	versions []uint64 // any of these
	absent   bool     // or nothing
	// acked: a put was acknowledged, and nothing was asked since that takes
	// the block away.
	acked bool
	// gone: a drop, or the end of an epoch, was acknowledged, and no put was
	// begun since.
	gone bool
	// evictable: an eviction was under way since the put was acknowledged.
	evictable bool
	// due: the drop that is under way was begun on a block that had to be there.
	due bool
}

// certain: the key holds a block, whatever else is not known.
func (s *state) certain() bool { return !s.absent && !s.evictable }

// Totals is what the promises came to.
type Totals struct {
	Kills        int64 // children killed
	Acknowledged int64 // puts that were acknowledged
	Dropped      int64 // drops that were acknowledged
	Checked      int64 // keys looked at after a kill
	Found        int64 // acknowledged, and found with their bytes
	Unacked      int64 // not acknowledged, found with bytes that were put
	Missing      int64 // acknowledged and missing, but evicted for all one knows
	// The rest are defects.
	Lost        int64 // acknowledged, not evicted, and missing
	Wrong       int64 // served with bytes that nobody put, or an old version
	Resurrected int64 // dropped, or of an older epoch, and found
	Refused     int64 // neither found nor missing: a get failed
}

func (t Totals) String() string {
	return fmt.Sprintf("%d kills, %d puts and %d drops acknowledged; %d keys looked at: %d acknowledged found, %d unacknowledged found, %d missing but allowed, %d lost, %d wrong, %d resurrected, %d refused",
		t.Kills, t.Acknowledged, t.Dropped, t.Checked, t.Found, t.Unacked, t.Missing, t.Lost, t.Wrong, t.Resurrected, t.Refused)
}

// Defects counts the broken promises.
func (t Totals) Defects() int64 { return t.Lost + t.Wrong + t.Resurrected + t.Refused }

func (t Totals) plus(u Totals) Totals {
	return Totals{
		t.Kills + u.Kills, t.Acknowledged + u.Acknowledged, t.Dropped + u.Dropped, t.Checked + u.Checked,
		t.Found + u.Found, t.Unacked + u.Unacked, t.Missing + u.Missing,
		t.Lost + u.Lost, t.Wrong + u.Wrong, t.Resurrected + u.Resurrected, t.Refused + u.Refused,
	}
}

func newLedger() *ledger {
	l := &ledger{}
	for i := range l.keys {
		l.keys[i] = state{absent: true}
	}
	return l
}

// apply enters a record of the child.
func (l *ledger) apply(r record) {
	switch r.kind {
	case kindOpening:
		l.evicting = false // died with the process, or was ended by its Open
	case kindEvicting, kindEvicted:
		l.evicting = r.kind == kindEvicting
		for i := range l.keys {
			l.keys[i].evictable = true
		}
	case kindBumping:
		for i := range l.keys {
			l.keys[i].absent, l.keys[i].acked = true, false
		}
	case kindBumped:
		for i := range l.keys {
			l.keys[i] = state{absent: true, gone: true}
		}
	}
	if r.key >= keys {
		return
	}
	s := &l.keys[r.key]
	switch r.kind {
	case kindPutting:
		s.putting(r.version)
	case kindPut:
		l.put(s, r)
	case kindDropping:
		s.due = s.certain()
		s.absent, s.acked = true, false
	case kindDropped:
		l.dropped(s, r.status)
	case kindGot:
		l.judge(r)
	case kindWrong:
		l.totals.Wrong++
	}
}

// putting: a key that holds a block for certain keeps it, whatever is put.
func (s *state) putting(version uint64) {
	if !s.certain() {
		s.versions = append(s.versions, version)
		s.gone = false
	}
}

// put enters the answer of a put.
func (l *ledger) put(s *state, r record) {
	switch {
	case r.status == engine.StatusOK && !r.existed:
		if s.certain() {
			l.totals.Lost++ // the first put wins, and it is not there any more
		}
		*s = state{versions: []uint64{r.version}, acked: true, evictable: l.evicting}
		l.totals.Acknowledged++
	case r.status == engine.StatusOK:
		s.forget(r.version)
		s.absent, s.acked, s.evictable = false, true, s.evictable || l.evicting
	case r.status != engine.StatusTimeout && r.status != engine.StatusIOError:
		s.forget(r.version) // refused: never visible
	}
}

func (l *ledger) dropped(s *state, status engine.Status) {
	switch status {
	case engine.StatusOK:
		l.totals.Dropped++
		*s = state{absent: true, gone: true}
	case engine.StatusMiss:
		if s.due {
			l.totals.Lost++
		}
		*s = state{absent: true, gone: s.gone}
	}
}

func (s *state) forget(version uint64) {
	s.versions = slices.DeleteFunc(s.versions, func(v uint64) bool { return v == version })
}

// judge holds what a get answered, before or after a kill, against what the
// key may hold, and returns what is wrong with it.
func (l *ledger) judge(r record) string {
	s := &l.keys[r.key]
	switch {
	case r.status == engine.StatusOK && slices.Contains(s.versions, r.version):
		return ""
	case r.status == engine.StatusOK && s.gone:
		l.totals.Resurrected++
		return fmt.Sprintf("key %d: version %d came back after it was dropped", r.key, r.version)
	case r.status == engine.StatusOK:
		l.totals.Wrong++
		return fmt.Sprintf("key %d: version %d is served, it may hold %v", r.key, r.version, s.versions)
	case r.status == engine.StatusMiss && (s.absent || s.evictable):
		return ""
	case r.status == engine.StatusMiss:
		l.totals.Lost++
		return fmt.Sprintf("key %d: version %v was acknowledged and is missing", r.key, s.versions)
	}
	l.totals.Refused++
	return fmt.Sprintf("key %d: %s", r.key, r.status)
}

// found enters what a key holds after a kill: from here on it is known.
func (l *ledger) found(r record) (problem string) {
	s := &l.keys[r.key]
	l.totals.Checked++
	if problem = l.judge(r); problem == "" {
		switch {
		case r.status == engine.StatusOK && s.acked:
			l.totals.Found++
		case r.status == engine.StatusOK:
			l.totals.Unacked++
		case s.acked:
			l.totals.Missing++
		}
	}
	if r.status == engine.StatusOK {
		*s = state{versions: []uint64{r.version}, acked: true}
	} else {
		*s = state{absent: true, gone: s.gone}
	}
	return problem
}
