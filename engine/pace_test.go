package engine

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fakePacer is a pacer on a clock that only its sleeps move.
func fakePacer(t testing.TB, bytesPerSecond int64) (p *pacer, slept func() time.Duration) {
	t.Helper()
	p, err := newPacer(bytesPerSecond)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	start := time.Unix(1000, 0)
	now := start
	p.now = func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return now
	}
	p.sleep = func(ctx context.Context, d time.Duration) error {
		mu.Lock()
		defer mu.Unlock()
		now = now.Add(max(d, 0))
		return context.Cause(ctx)
	}
	return p, func() time.Duration { return now.Sub(start) }
}

// TestPacer: however the bytes are asked for, they take as long as the rate
// says, less the burst that is there at the beginning.
func TestPacer(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		bps := rapid.Int64Range(1<<20, 1<<32).Draw(r, "rate")
		p, slept := fakePacer(t, bps)
		var total int64
		for _, n := range rapid.SliceOfN(rapid.Int64Range(0, 8<<20), 1, 50).Draw(r, "requests") {
			if err := p.wait(context.Background(), n); err != nil {
				r.Fatal(err)
			}
			total += n
		}
		want := max(0, float64(total-paceBurstBytes)/float64(bps))
		if got := slept().Seconds(); got < want*0.999-1e-3 || got > want*1.001+1e-3 {
			r.Errorf("%d bytes at %d bytes a second took %.4f s, want %.4f", total, bps, got, want)
		}
	})
}

func TestPacerLimits(t *testing.T) {
	if p, err := newPacer(0); p != nil || err != nil || p.wait(context.Background(), 1<<40) != nil {
		t.Errorf("no limit: %v, %v", p, err)
	}
	if _, err := newPacer(-1); !errors.Is(err, ErrInvalid) {
		t.Errorf("a negative rate: %v", err)
	}
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	p, err := newPacer(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.wait(ctx, 100<<20); !errors.Is(err, stop) {
		t.Errorf("an ended context: %v", err)
	}
}
