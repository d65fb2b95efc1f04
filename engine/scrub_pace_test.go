package engine

import (
	"testing"
	"time"
)

// TestScrubPause: the pace follows from what is left of bytes and time.
func TestScrubPause(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	plan := scrubPlan{from: at, end: at.Add(1000 * time.Second), leftBytes: 1000 * mib, rateMax: 10 * mib, pauseMax: time.Minute}
	for _, c := range []struct {
		name       string
		read, left int64
		after      time.Duration
		want       time.Duration
	}{
		{"even", 1 * mib, 1000 * mib, 0, time.Second},
		{"half a piece", mib / 2, 1000 * mib, 0, time.Second / 2},
		{"ahead", 1 * mib, 250 * mib, 500 * time.Second, 2 * time.Second},
		{"behind", 1 * mib, 1000 * mib, 500 * time.Second, time.Second / 2},
		{"far behind, at most at the highest rate", 1 * mib, 1000 * mib, 990 * time.Second, time.Second / 10},
		{"late", 1 * mib, 1000 * mib, 1001 * time.Second, time.Second / 10},
		{"little left, at least one a minute", 1 * mib, 2 * mib, 0, time.Minute},
		{"nothing left that is known of", 1 * mib, 0, 0, time.Minute},
	} {
		if got := plan.pause(c.read, c.left, at.Add(c.after)); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestScrubMayYield: it makes way until an eighth of the plan is behind.
func TestScrubMayYield(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	plan := scrubPlan{from: at, end: at.Add(800 * time.Second), leftBytes: 800 * mib, rateMax: mib, pauseMax: time.Minute}
	for _, c := range []struct {
		left  int64
		after time.Duration
		want  bool
	}{
		{800 * mib, 0, true},
		{800 * mib, 100 * time.Second, true},
		{800 * mib, 101 * time.Second, false},
		{400 * mib, 500 * time.Second, true},
		{400 * mib, 501 * time.Second, false},
		{mib, 800 * time.Second, false},
		{mib, 900 * time.Second, false},
	} {
		if got := plan.mayYield(c.left, at.Add(c.after)); got != c.want {
			t.Errorf("%d MiB left after %v: %v", c.left/mib, c.after, got)
		}
	}
	if (scrubPlan{}).mayYield(1, at) {
		t.Error("a plan without an end yields for ever")
	}
}
