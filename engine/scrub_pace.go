package engine

import "time"

const (
	// scrubPieceBytes is the most that is read at a time: what a get that comes
	// meanwhile may have to wait for.
	scrubPieceBytes = 1 << 20
	// scrubPauseMax bounds the wait between two reads: a small store is done
	// before its time rather than read once in days, which a store that is
	// open for short times only would never come to.
	scrubPauseMax = time.Minute
	// scrubLag is the part of the plan by which the scrubber may fall behind to
	// make way for gets and puts. Behind that it takes its turn among them.
	scrubLag = 8
	// scrubElapsedMax of scrubLag parts of the cycle may be over when a store is
	// opened: however long it was closed, some time is left for the rest.
	scrubElapsedMax = scrubLag - 1
)

// scrubPlan says when the next read is due, so that what was left at one time
// is read when the cycle ends.
type scrubPlan struct {
	from, end time.Time
	leftBytes int64 // at from
	// rateMax bounds the rate, in bytes per second, and pauseMax the time
	// between two reads.
	rateMax  int64
	pauseMax time.Duration
}

// pause is how long after a read of so many bytes the next one may begin.
func (p scrubPlan) pause(readBytes, leftBytes int64, now time.Time) time.Duration {
	least := bytesTime(readBytes, p.rateMax)
	timeLeft := p.end.Sub(now)
	if timeLeft <= 0 {
		return least
	}
	leftBytes = max(leftBytes, readBytes, 1)
	even := time.Duration(float64(timeLeft) * (float64(readBytes) / float64(leftBytes)))
	return max(least, min(even, p.pauseMax))
}

// mayYield reports whether there is time to wait for gets and puts.
func (p scrubPlan) mayYield(leftBytes int64, now time.Time) bool {
	whole := p.end.Sub(p.from)
	if whole <= 0 || !now.Before(p.end) {
		return false
	}
	planned := float64(p.leftBytes) * (float64(p.end.Sub(now)) / float64(whole))
	return float64(leftBytes)-planned <= float64(p.leftBytes)/scrubLag
}

// shift moves the plan along with a clock that was set.
func (p *scrubPlan) shift(d time.Duration) { p.from, p.end = p.from.Add(d), p.end.Add(d) }

// bytesTime is how long so many bytes take at a rate.
func bytesTime(n, bytesPerSecond int64) time.Duration {
	return time.Duration(float64(n) / float64(bytesPerSecond) * float64(time.Second))
}
