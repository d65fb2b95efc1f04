package engine

import "github.com/sealstone/sealstone/tiers/disk"

// leftOutHere counts what a rebuild leaves out of one segment because of
// damage, so that it can be said of which file.
type leftOutHere struct {
	bad        int   // extents that do not verify
	why        error // of the first of them
	distrusted int   // extents of which it is unknown whether they were dropped
}

func (l *leftOutHere) unverified(err error) {
	if l.bad++; l.why == nil {
		l.why = err
	}
}

// tellLeftOut reports what was left out of a segment.
func (b *rebuilder) tellLeftOut(segment uint64) {
	if err := b.damaged[segment]; err != nil {
		b.s.event(EventRebuild, "%s is damaged (%v): which blocks of segment %d were dropped is unknown, so all %d extents are left out",
			disk.SidecarName(segment), err, segment, b.here.distrusted)
	}
	if b.here.bad > 0 {
		b.s.event(EventRebuild, "%s: %d extents do not verify and are left out, rotten or never written whole; the first: %v",
			disk.SegmentName(segment), b.here.bad, b.here.why)
	}
}
