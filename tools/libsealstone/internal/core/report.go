package core

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/sealstone/sealstone/engine"
)

func isClosing(err error) bool { return errors.Is(err, engine.ErrClosing) }

// libraryStats are the figures of the library itself.
type libraryStats struct {
	QueueStats
	Namespaces     int   `json:"namespaces"`
	Regions        int   `json:"regions"`
	Leases         int   `json:"leases"`
	InternalErrors int64 `json:"internal_errors"`
}

// Stats are the figures of a store and of the library's part as one JSON object:
// what the store answers, with two keys more.
func (l *Lib) Stats(h uint64) ([]byte, *Error) {
	s, e := l.store(h)
	if e != nil {
		return nil, e
	}
	ctx, cancel := s.context(0)
	defer cancel()
	store, err := s.b.stats(ctx)
	if err != nil {
		return nil, callError(err)
	}
	out := map[string]json.RawMessage{}
	if err := json.Unmarshal(store, &out); err != nil {
		return nil, failf(Unavailable, "the figures that the server answered are no JSON object: %v", err)
	}
	_, faults := l.caught()
	out["mode"] = mustJSON(s.b.mode())
	out["library"] = mustJSON(libraryStats{s.q.stats(), l.spaces.count(), l.regions.count(), l.leases.count(), faults})
	return mustJSON(out), nil
}

// Health is the state of a store, and why it is not better, as JSON.
func (l *Lib) Health(h uint64) (HealthState, []byte, *Error) {
	s, e := l.store(h)
	if e != nil {
		return 0, nil, e
	}
	ctx, cancel := s.context(0)
	defer cancel()
	v := s.b.health(ctx)
	texts, _ := l.caught()
	v.Reasons = append(append([]string{}, v.Reasons...), texts...)
	return v.State, mustJSON(v), nil
}

// event is an event as the host reads it.
type event struct {
	Seq     uint64    `json:"seq"`
	Time    time.Time `json:"time"`
	Kind    string    `json:"kind"`
	Message string    `json:"message"`
}

// Events are those after a number, as JSON.
func (l *Lib) Events(h, after uint64) ([]byte, *Error) {
	s, e := l.store(h)
	if e != nil {
		return nil, e
	}
	got, err := s.b.events(after)
	if err != nil {
		return nil, callError(err)
	}
	out := make([]event, 0, len(got))
	for _, v := range got {
		out = append(out, event{v.Seq, v.Time, v.Kind.String(), v.Message})
	}
	return mustJSON(out), nil
}
