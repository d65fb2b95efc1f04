package engine

import (
	"context"
	"time"

	"golang.org/x/time/rate"
)

// pacer spreads the I/O of an offline command over time, so that it takes no
// more of a device than it was given. A nil pacer sets no limit. Several
// goroutines may share one.
type pacer struct {
	limit *rate.Limiter
	now   func() time.Time
	sleep func(context.Context, time.Duration) error
}

// paceBurstBytes is what a pacer lets through at once at most. A larger
// request counts as several.
const paceBurstBytes = 1 << 20

// newPacer limits I/O to so many bytes a second; 0 is no limit.
func newPacer(bytesPerSecond int64) (*pacer, error) {
	if bytesPerSecond < 0 {
		return nil, invalidf("a rate of %d bytes a second", bytesPerSecond)
	}
	if bytesPerSecond == 0 {
		return nil, nil
	}
	return &pacer{limit: rate.NewLimiter(rate.Limit(bytesPerSecond), paceBurstBytes), now: time.Now, sleep: sleepContext}, nil
}

// wait returns when the next n bytes may be read or written, or with the
// context's error.
func (p *pacer) wait(ctx context.Context, n int64) error {
	if p == nil {
		return nil
	}
	for n > 0 {
		step := min(n, paceBurstBytes)
		now := p.now()
		if err := p.sleep(ctx, p.limit.ReserveN(now, int(step)).DelayFrom(now)); err != nil {
			return err
		}
		n -= step
	}
	return nil
}

func sleepContext(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
