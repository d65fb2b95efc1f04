package engine

import (
	"strings"
	"testing"
)

// TestInspectScrub: what the scrubber left is told; a position that can not be
// read is a warning and no error.
func TestInspectScrub(t *testing.T) {
	fs := verifyStore(t)
	if st := mustStats(t, fs); st.Scrub != nil || len(st.Warnings) != 0 {
		t.Errorf("before there was any: %+v, %v", st.Scrub, st.Warnings)
	}
	i, err := inspect("mem", testOptions(fs).private)
	if err != nil {
		t.Fatal(err)
	}
	pos := sampleScrub()
	p := encodeScrub(pos, i.f.s.uuid, i.f.s.key)
	if err := i.Close(); err != nil {
		t.Fatal(err)
	}
	writeWhole(t, fs, scrubFile, p)
	got := mustStats(t, fs).Scrub
	if got == nil || !got.Written.Equal(pos.written) || !got.Last.End.Equal(pos.last.End) {
		t.Fatalf("%+v, want %+v", got, pos)
	}
	c, l := got.Cycle, got.Last
	if c.Number != 3 || c.Blocks != 1 || c.Bytes != 2 || c.Bad != 4 || c.Damaged != 5 || c.Unreadable != 6 || !c.End.IsZero() {
		t.Errorf("cycle %+v", c)
	}
	if l.Number != 2 || l.Blocks != 10 || l.Unreadable != 60 {
		t.Errorf("last %+v", l)
	}
	p[100] ^= 1
	writeWhole(t, fs, scrubFile, p)
	if st := mustStats(t, fs); st.Scrub != nil || len(st.Warnings) != 1 || !strings.Contains(st.Warnings[0], "scrubber") {
		t.Errorf("damaged: %+v, %v", st.Scrub, st.Warnings)
	}
}
