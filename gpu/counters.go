package gpu

import "sync/atomic"

// counters are what Stats shows, as they change.
type counters struct {
	hostIn, hostOut, direct                           pathCounters
	copies, copiedBytes, kernelRuns, flushes          atomic.Int64
	kernelFaults                                      atomic.Int64
	reads, readErrors, readsShort, readsHung          atomic.Int64
	setAside, demoted, banned                         atomic.Int64
	handlesOpen, handlesEvicted, handleRegisterErrors atomic.Int64
}

type pathCounters struct {
	attempted, attemptedBytes, done, doneBytes, verified, verifiedBytes atomic.Int64
	corrupt, failed, fellBack, fellBackBytes                            atomic.Int64
}

func (p *pathCounters) attempt(bytes int64) {
	p.attempted.Add(1)
	p.attemptedBytes.Add(bytes)
}

// end counts how one block came out.
func (p *pathCounters) end(err error, bytes int64, verified bool) {
	switch {
	case isMismatch(err):
		p.corrupt.Add(1)
		return
	case err != nil:
		p.failed.Add(1)
		return
	}
	p.done.Add(1)
	p.doneBytes.Add(bytes)
	if verified {
		p.verified.Add(1)
		p.verifiedBytes.Add(bytes)
	}
}

func (p *pathCounters) snapshot() PathStats {
	return PathStats{
		Attempted: p.attempted.Load(), AttemptedBytes: p.attemptedBytes.Load(),
		Done: p.done.Load(), DoneBytes: p.doneBytes.Load(),
		Verified: p.verified.Load(), VerifiedBytes: p.verifiedBytes.Load(),
		Corrupt: p.corrupt.Load(), Failed: p.failed.Load(),
		FellBack: p.fellBack.Load(), FellBackBytes: p.fellBackBytes.Load(),
	}
}

// CountFellBack counts blocks that a direct read failed for and that came
// through the host in the same call.
func (d *Device) CountFellBack(blocks int, bytes int64) {
	d.count.direct.fellBack.Add(int64(blocks))
	d.count.direct.fellBackBytes.Add(bytes)
}

// Stats are the counters since the device was opened. They are read one by
// one, while they change.
func (d *Device) Stats() Stats {
	c := &d.count
	return Stats{
		HostIn: c.hostIn.snapshot(), HostOut: c.hostOut.snapshot(), Direct: c.direct.snapshot(),
		Pinned: d.pinned.snapshot(), Staging: d.staging.snapshot(), Inspection: d.inspection.snapshot(), Landing: d.landing.pool.snapshot(),
		Copies: c.copies.Load(), CopiedBytes: c.copiedBytes.Load(), KernelRuns: c.kernelRuns.Load(), Flushes: c.flushes.Load(),
		KernelFaults: c.kernelFaults.Load(),
		Reads:        c.reads.Load(), ReadErrors: c.readErrors.Load(), ReadsShort: c.readsShort.Load(), ReadsHung: c.readsHung.Load(),
		SetAside: c.setAside.Load(), RoutesDemoted: c.demoted.Load(), RoutesBanned: c.banned.Load(),
		HandlesOpen: c.handlesOpen.Load(), HandlesEvicted: c.handlesEvicted.Load(), HandleRegisterRefusals: c.handleRegisterErrors.Load(),
		DeviceLost: d.lostErr() != nil,
	}
}
