package engine

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// EventKind says what an [Event] is about.
type EventKind uint8

// The kinds of events. docs/operations.md says what to do about each.
const (
	EventOpened          EventKind = iota + 1 // Open succeeded
	EventClosed                               // Close finished
	EventHealth                               // the health state changed
	EventRebuild                              // the index was rebuilt from segments
	EventRecovered                            // the log was replayed after a crash
	EventTornLog                              // the newest log had a torn tail
	EventUnproven                             // records behind the durable mark did not verify
	EventHealed                               // a damaged copy of STORE or NAMESPACES was rewritten
	EventStrangeFile                          // a file that is not the store's
	EventQuarantine                           // a block was found bad
	EventQuarantineStorm                      // too many: quarantining stopped
	EventEvict                                // a segment was evicted
	EventDiffers                              // a put of a stored key had other content (sampled)
	EventEpoch                                // an epoch was bumped
	EventLayoutNear                           // a new layout is near to a stored one
	EventIndexTrouble                         // the index' background work fails
	EventSyncFailed                           // a sync failed; what it covered is withdrawn
	EventSegmentLost                          // the file of a segment with live blocks is gone
	EventPathDemoted                          // a path returned wrong bytes and is not used any more
	EventProbe                                // what the directory can do, at Open
	EventCompression                          // automatic compression was switched on or off
	EventHint                                 // the hint table is too small and given up
	EventCompact                              // a segment was emptied to give its dead space back
	EventScrub                                // the scrubber found something, or ended a cycle
	EventUnanswered                           // a namespace is asked again and again and never hits
	EventSetAside                             // the content of an incompatible store was set aside
	EventDevice                               // a GPU, or its direct path, changed its state
	EventHostMemory                           // a block in the cache in memory did not verify
	EventQuota                                // a tenant came near its quota
)

var eventNames = map[EventKind]string{
	EventOpened: "opened", EventClosed: "closed", EventHealth: "health", EventRebuild: "rebuild",
	EventRecovered: "recovered", EventTornLog: "torn-log", EventUnproven: "unproven", EventHealed: "healed",
	EventStrangeFile: "strange-file", EventQuarantine: "quarantine", EventQuarantineStorm: "quarantine-storm",
	EventEvict: "evict", EventDiffers: "differs", EventEpoch: "epoch", EventLayoutNear: "layout-near",
	EventIndexTrouble: "index-trouble", EventSyncFailed: "sync-failed",
	EventSegmentLost: "segment-lost", EventPathDemoted: "path-demoted", EventProbe: "probe",
	EventCompression: "compression", EventHint: "hint", EventCompact: "compact",
	EventScrub: "scrub", EventUnanswered: "unanswered",
	EventSetAside: "set-aside", EventDevice: "gpu",
	EventHostMemory: "host-memory", EventQuota: "quota",
}

func (k EventKind) String() string {
	if n, ok := eventNames[k]; ok {
		return n
	}
	return fmt.Sprintf("event %d", uint8(k))
}

// Event is something that an operator may want to know.
type Event struct {
	Seq     uint64 // 1, 2, 3 …: a gap means that the ring has moved on
	Time    time.Time
	Kind    EventKind
	Message string
}

func (e Event) String() string { return e.Kind.String() + ": " + e.Message }

const eventRingLength = 256

// eventRing keeps the latest events and hands them to the callback one at a
// time, on a goroutine of its own, so that a slow callback holds nobody up:
// what it does not take in time it finds in the ring.
type eventRing struct {
	mu   sync.Mutex
	ring []Event
	seq  uint64
	out  chan Event
	done chan struct{}
}

func newEventRing(call func(Event)) *eventRing {
	r := &eventRing{}
	if call != nil {
		out, done := make(chan Event, eventRingLength), make(chan struct{})
		r.out, r.done = out, done
		go func() { // it may begin only after close, which takes r.out away
			defer close(done)
			for e := range out {
				call(e)
			}
		}()
	}
	return r
}

func (r *eventRing) add(now time.Time, kind EventKind, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seq++
	e := Event{Seq: r.seq, Time: now, Kind: kind, Message: message}
	if len(r.ring) == eventRingLength {
		r.ring = append(r.ring[:0], r.ring[1:]...)
	}
	r.ring = append(r.ring, e)
	if r.out != nil {
		select {
		case r.out <- e:
		default:
		}
	}
}

func (r *eventRing) since(seq uint64) []Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, e := range r.ring {
		if e.Seq > seq {
			return append([]Event(nil), r.ring[i:]...)
		}
	}
	return nil
}

// close waits for the callback to take the last events, but not for ever.
func (r *eventRing) close(ctx context.Context) {
	r.mu.Lock()
	out := r.out
	r.out = nil
	r.mu.Unlock()
	if out == nil {
		return
	}
	close(out)
	select {
	case <-r.done:
	case <-ctx.Done():
	}
}

// Events returns the events after sequence number since that are still in
// the ring of 256, oldest first.
func (s *Store) Events(since uint64) []Event { return s.events.since(since) }

// event records an event and logs it in one line.
func (s *Store) event(kind EventKind, format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	s.events.add(s.o.private.now(), kind, msg)
	s.o.Logger.Info("sealstone: "+msg, "event", kind.String(), "dir", s.dir)
}
