package load

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// TestJudge: each way in which a value can be wrong has its verdict.
func TestJudge(t *testing.T) {
	v := values{"p", []int{24, 100, 5000}}
	change := func(do func(p []byte) []byte) func() []byte {
		return func() []byte { return do(v.fill(nil, 3, 5)) }
	}
	for name, c := range map[string]struct {
		value       func() []byte
		least, most uint64
		want        verdict
	}{
		"right":                {change(func(p []byte) []byte { return p }), 5, 5, right},
		"an older one":         {change(func(p []byte) []byte { return p }), 4, 6, right},
		"after a later one":    {change(func(p []byte) []byte { return p }), 6, 6, stale},
		"never sent":           {change(func(p []byte) []byte { return p }), 0, 4, foreign},
		"empty":                {change(func(p []byte) []byte { return nil }), 0, 9, short},
		"cut":                  {change(func(p []byte) []byte { return p[:len(p)-1] }), 0, 9, short},
		"longer":               {change(func(p []byte) []byte { return append(p, 0) }), 0, 9, short},
		"another key":          {func() []byte { return v.fill(nil, 4, 5) }, 0, 9, foreign},
		"another length named": {change(func(p []byte) []byte { binary.LittleEndian.PutUint64(p[16:], 7); return p }), 0, 9, short},
		"bytes of another version": {change(func(p []byte) []byte {
			q := v.fill(nil, 3, 8) // of the same length
			copy(q, p[:headBytes])
			return q
		}), 0, 9, wrong},
		"bytes of another run": {func() []byte { return values{"q", v.sizes}.fill(nil, 3, 5) }, 0, 9, wrong},
	} {
		t.Run(name, func(t *testing.T) {
			p := c.value()
			if got, err := v.judge(p, 3, c.least, c.most); got != c.want || (err == nil) != (got == right) {
				t.Errorf("%s (%v), want %s", verdictNames[got], err, verdictNames[c.want])
			}
		})
	}
}

// TestJudgeSeesEveryByte: a value is right as it was made, and no bit of it can
// change without being seen; judging leaves it as it was.
func TestJudgeSeesEveryByte(t *testing.T) {
	v := values{"p", []int{24, 100, 4096, 70_000}}
	rapid.Check(t, func(t *rapid.T) {
		key, version := rapid.IntRange(0, 1<<20).Draw(t, "key"), rapid.Uint64Range(1, 1<<20).Draw(t, "version")
		p := v.fill(nil, key, version)
		if got, err := v.judge(p, key, version, version); got != right {
			t.Fatalf("as it was made: %v", err)
		}
		at := rapid.IntRange(0, len(p)*8-1).Draw(t, "bit")
		p[at/8] ^= 1 << (at % 8)
		got, _ := v.judge(p, key, version, version)
		if got == right {
			t.Fatal("a changed bit was not seen")
		}
		p[at/8] ^= 1 << (at % 8)
		if got, err := v.judge(p, key, version, version); got != right {
			t.Fatalf("after judging it: %v", err)
		}
	})
}

// TestHistory: what may be read follows from what was sent and answered.
func TestHistory(t *testing.T) {
	h := NewHistory(2)
	e := &h.keys[0]
	see := func(what string, least, most uint64, stored int) {
		t.Helper()
		if e.least.Load() != least || e.most.Load() != most || h.Stored() != stored {
			t.Errorf("%s: from %d to %d, %d stored; want from %d to %d, %d", what, e.least.Load(), e.most.Load(), h.Stored(), least, most, stored)
		}
	}
	see("new", 0, 0, 0)
	v := e.next()
	see("sent", 0, 1, 0)
	e.written(v)
	see("acknowledged", 1, 1, 1)
	e.next()
	see("overwritten, no answer", 1, 2, 0)
	e.written(e.next())
	see("acknowledged", 3, 3, 1)
	e.removing()
	see("deleted, no answer", 3, 3, 0)
	e.removed()
	see("deleted", 4, 3, 0)
	e.written(e.next())
	see("written again", 4, 4, 1)
	h.Forget()
	see("forgotten", 4, 4, 0)
}

// TestWriters: every key has exactly one writer, and half of the workers and
// of the slow ones write.
func TestWriters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := Config{Workers: rapid.IntRange(1, 20).Draw(t, "workers"), Slow: rapid.IntRange(0, 9).Draw(t, "slow")}
		seen := map[int]bool{}
		for id := range c.Workers + c.Slow {
			n := c.writer(id)
			if n >= 0 && (seen[n] || n >= c.writers()) {
				t.Fatalf("worker %d is writer %d of %d, or it was one before", id, n, c.writers())
			}
			if n >= 0 {
				seen[n] = true
			}
		}
		if len(seen) != c.writers() {
			t.Fatalf("%d write, %d were to", len(seen), c.writers())
		}
	})
}
