package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/tiers/disk"
)

// scrubRegion is a range of a file of a victim store, and what lies there.
type scrubRegion struct {
	file     string
	from, to int64
	// block is whose bytes they are; 0: none, no get depends on them.
	block int
}

// regionsOf lists everything in the segments of a victim store that a scrub
// must find damage in.
func regionsOf(t testing.TB, v *victimStore) (out []scrubRegion) {
	t.Helper()
	for id, e := range v.entries {
		if e.IsAlias() {
			own := e.Own
			out = append(out, scrubRegion{file: disk.SegmentName(own.Address.Segment), from: own.Address.Offset(), to: own.Address.Offset() + own.Bytes()})
			continue
		}
		out = append(out, scrubRegion{file: disk.SegmentName(e.Address.Segment), from: e.Address.Offset(), to: e.Address.Offset() + e.Bytes(), block: id})
	}
	for _, id := range v.segments {
		out = append(out, scrubRegion{file: disk.SegmentName(id), to: disk.PageBytes},
			scrubRegion{file: disk.SidecarName(id), to: int64(len(readWhole(t, v.fs, disk.SidecarName(id))))})
	}
	sealed := disk.SegmentName(v.segments[0])
	size := int64(len(readWhole(t, v.fs, sealed)))
	out = append(out, scrubRegion{file: sealed, from: size - disk.PageBytes, to: size})
	slices.SortFunc(out, func(a, b scrubRegion) int {
		if c := strings.Compare(a.file, b.file); c != 0 {
			return c
		}
		return int(a.from - b.from)
	})
	return out
}

// TestFaultScrubFlips flips a bit of every n-th byte of all that a scrub looks
// at, and wants it found, at its place, by one pass: what is in a block's header
// or bytes takes the block out, what is elsewhere costs nothing. Field case 36.
func TestFaultScrubFlips(t *testing.T) {
	tally := faulttest.New(t)
	v := newVictim(t)
	step := int64(3989)
	if fullTests {
		step = 97
	} else if testing.Short() {
		step = 16001
	}
	n := 0
	for _, r := range regionsOf(t, v) {
		for off := r.from + step%97; off < r.to; off += step {
			scrubFlip(t, tally, v, r, off)
			n++
		}
	}
	if n < 15 {
		t.Errorf("%d flips: the test tests nothing", n)
	}
}

func scrubFlip(t *testing.T, tally *faulttest.Tally, v *victimStore, r scrubRegion, off int64) {
	t.Helper()
	f := tally.Try(fmt.Sprintf("a flip in %s at %d", r.file, off))
	defer tally.Settle()
	fs := v.clone()
	s := mustOpen(t, victimOptions(fs))
	defer mustClose(t, s)
	flipByte(t, fs, r.file, off)
	f.Fire()
	report := mustScrub(t, s)
	if len(report.Findings) != 1 || report.Findings[0].File != r.file {
		t.Errorf("%s at %d: %v, %v", r.file, off, report.ScrubTotals, report.Findings)
		return
	}
	found := report.Findings[0]
	if found.Offset > off || found.Offset >= 0 && found.Offset < r.from {
		t.Errorf("%s at %d: found at %d", r.file, off, found.Offset)
	}
	// The fill behind the planes is no part of a block.
	wantBad := int64(0)
	if r.block != 0 && !strings.Contains(found.Reason, "fill behind a plane") {
		wantBad = 1
	}
	if report.Bad != wantBad || report.Bad+report.Damaged != 1 || report.Unreadable+report.Skipped+report.Transient != 0 {
		t.Errorf("%s at %d: %v", r.file, off, report.ScrubTotals)
	}
	vd := &verdict{status: map[int]Status{}}
	v.readAll(s, vd)
	for _, wrong := range vd.wrong {
		t.Errorf("%s at %d: %s", r.file, off, wrong)
	}
	lost := vd.lost()
	if wantBad == 0 && len(lost) != 0 || wantBad == 1 && (!slices.Contains(lost, r.block) || !subset(lost, v.owners(segmentOf(t, v, r.file), off))) {
		t.Errorf("%s at %d: blocks %v are lost", r.file, off, lost)
	}
	if again := mustScrub(t, s); again.Bad != 0 || again.Damaged != 1-wantBad {
		t.Errorf("%s at %d: the next pass finds %v", r.file, off, again.ScrubTotals)
	}
	if len(vd.wrong) == 0 {
		f.Survive()
	}
}

// segmentOf is the segment that a file belongs to.
func segmentOf(t testing.TB, v *victimStore, file string) uint64 {
	t.Helper()
	for _, id := range v.segments {
		if file == disk.SegmentName(id) || file == disk.SidecarName(id) {
			return id
		}
	}
	t.Fatalf("%s is of no segment", file)
	return 0
}
