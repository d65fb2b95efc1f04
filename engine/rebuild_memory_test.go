package engine

import (
	"context"
	"testing"
)

// TestRebuildRemembersSharedContent: what a rebuild keeps in memory grows with
// the aliases, not with the blocks.
func TestRebuildRemembersSharedContent(t *testing.T) {
	r := newRig(t)
	for k := range 20 {
		r.put(k, k)
	}
	r.flush()
	r.alias(20, 3)
	r.roll()
	r.alias(21, 3)
	r.alias(22, 7)
	r.s.syncAndApply()
	r.drop(3) // its bytes stay, for the aliases
	r.roll()
	r.s.syncAndApply() // all segments are sealed
	b, err := (&recovery{s: r.s}).fill(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(b.full) != 2 || len(b.aliases) != 3 {
		t.Errorf("%d places and %d aliases are kept in memory, want 2 and 3", len(b.full), len(b.aliases))
	}
	r.kill(indexDir)
	r.absent(3)
	for k, content := range map[int]int{7: 7, 20: 3, 21: 3, 22: 7} {
		r.want(k, content)
	}
	mustClose(t, r.s)
}
