package web

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/sealstone/sealstone/engine"
)

// livez is for whoever restarts the process: 200 unless it is wedged. A store
// that is slow, damaged, read-only or all-miss is no reason: a new process
// would meet the same disk, and the cache in memory would be gone.
func (s *site) livez(w http.ResponseWriter, _ *http.Request) {
	if ok, why := s.o.Alive(); !ok {
		text(w, http.StatusServiceUnavailable, "wedged: "+why)
		return
	}
	text(w, http.StatusOK, "ok")
}

// readyz is for whoever sends traffic: 503 while that would be pointless.
func (s *site) readyz(w http.ResponseWriter, _ *http.Request) {
	m := s.o.Now()
	if m.Phase != PhaseServing || m.Store == nil {
		text(w, http.StatusServiceUnavailable, phaseText(m))
		return
	}
	if h := m.Store.Health(); h.State >= engine.HealthAllMiss {
		text(w, http.StatusServiceUnavailable, healthText(h))
		return
	}
	text(w, http.StatusOK, "ok")
}

// healthz is for alerts: 503 and the reason when anything is less than well.
func (s *site) healthz(w http.ResponseWriter, _ *http.Request) {
	m := s.o.Now()
	ok, why := s.o.Alive()
	switch {
	case !ok:
		text(w, http.StatusServiceUnavailable, "wedged: "+why)
	case m.Phase != PhaseServing || m.Store == nil:
		text(w, http.StatusServiceUnavailable, phaseText(m))
	default:
		h := m.Store.Health()
		status := http.StatusOK
		if h.State != engine.HealthOK {
			status = http.StatusServiceUnavailable
		}
		text(w, status, healthText(h))
	}
}

func phaseText(m Moment) string {
	if m.Detail == "" {
		return string(m.Phase)
	}
	return fmt.Sprintf("%s: %s", m.Phase, m.Detail)
}

func healthText(h engine.Health) string {
	if len(h.Reasons) == 0 {
		return h.State.String()
	}
	return h.State.String() + ": " + strings.Join(h.Reasons, "; ")
}

func text(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	// A client that went away takes its own answer with it.
	_, _ = io.WriteString(w, line+"\n")
}
