package daemon

import (
	"strings"
	"testing"
	"time"
)

// TestHeart: wedged is only who neither looks at its store nor ends a request.
func TestHeart(t *testing.T) {
	now, ended := time.Unix(1000, 0), int64(0)
	h := NewHeart(time.Minute, func() time.Time { return now }, func() int64 { return ended })
	wait := func(d time.Duration) { now = now.Add(d) }
	expect := func(when string, want bool) {
		t.Helper()
		if ok, why := h.Alive(); ok != want || ok != (why == "") {
			t.Errorf("%s: alive %v (%q), want %v", when, ok, why, want)
		}
	}
	expect("at the start", true)
	wait(59 * time.Second)
	expect("just before the bound", true)
	wait(time.Second)
	expect("at the bound", false)
	h.Beat()
	expect("after a beat", true)
	wait(2 * time.Minute)
	ended++
	expect("a request ended", true)
	wait(30 * time.Second)
	ended++
	expect("another ended", true)
	wait(59 * time.Second)
	expect("within the bound of that", true)
	wait(time.Second)
	if ok, why := h.Alive(); ok || !strings.Contains(why, "for 1m0s") {
		t.Errorf("silence is told as %v, %q", ok, why)
	}
	wait(time.Hour)
	expect("an hour later", false)
}
