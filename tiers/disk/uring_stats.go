package disk

// UringStats is the state of a [UringReader].
type UringStats struct {
	// Rings is the number of rings that work, Depth how many requests fit
	// into them together.
	Rings, Depth int
	// Modes names what the kernel granted at setup.
	Modes string
	// InFlight is the number of requests in the rings now, Queued how many
	// wait to get there.
	InFlight, Queued int
	// Rebuilt counts rings that broke and were made anew; Fallbacks the
	// requests that a ring began, or waited for, and the pread path did.
	Rebuilt, Fallbacks uint64
	// Broken says why a ring was given up last, or is "".
	Broken string
}

// Stats tells the state.
func (u *UringReader) Stats() UringStats {
	u.mu.Lock()
	defer u.mu.Unlock()
	return UringStats{
		Rings: len(u.workers), Depth: len(u.workers) * u.depth, Modes: u.modes,
		InFlight: int(u.inFlight.Load()), Queued: u.queue.len(),
		Rebuilt: u.rebuilt, Fallbacks: u.fallbacks.Load(), Broken: u.broken,
	}
}
