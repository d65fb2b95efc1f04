package engine

import (
	"fmt"
	"strings"
	"time"
)

// OpenPhase is one part of what an Open did and how long it took.
type OpenPhase struct {
	Name     string
	Duration time.Duration
}

// phaseClock times the parts of an Open, one after the other.
type phaseClock struct {
	phases []OpenPhase
	last   time.Time
}

// begin starts the clock of the first part.
func (c *phaseClock) begin() { c.last = time.Now() }

// done ends a part and starts the clock of the next. A part that comes twice,
// as when an index turns out to be damaged late, is added up.
func (c *phaseClock) done(name string) {
	now := time.Now()
	took := now.Sub(c.last)
	c.last = now
	for i := range c.phases {
		if c.phases[i].Name == name {
			c.phases[i].Duration += took
			return
		}
	}
	c.phases = append(c.phases, OpenPhase{name, took})
}

func (c *phaseClock) String() string {
	parts := make([]string, len(c.phases))
	for i, p := range c.phases {
		parts[i] = fmt.Sprintf("%s %v", p.Name, p.Duration.Round(time.Millisecond))
	}
	return strings.Join(parts, ", ")
}
