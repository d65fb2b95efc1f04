package engine

import (
	"context"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestMatchAndEviction: a match during an eviction promises only what the
// pass will keep. Before the pass has chosen, a lease makes it keep the
// block; afterwards a block that is not moved is not promised any more.
func TestMatchAndEviction(t *testing.T) {
	ctx := context.Background()
	for _, c := range []struct {
		point string
		want  int
	}{{"evict:drained", 1}, {"evict:moved", 0}} {
		t.Run(c.point, func(t *testing.T) {
			r := &rig{t: t, mem: vfs.NewMem()}
			r.open()
			r.put(0, 0)
			r.flush()
			r.roll()
			r.put(1, 1)
			got := -1
			r.at[c.point] = func() {
				l, err := r.n.Match(ctx, [][]byte{hashOf(0)})
				if err != nil {
					t.Error(err)
					return
				}
				got = l.Blocks()
			}
			r.evict()
			if got != c.want {
				t.Fatalf("match at %s: %d blocks, want %d", c.point, got, c.want)
			}
			if _, status := readContent(r.n, 0); (status == StatusOK) != (c.want == 1) {
				t.Fatalf("get after the eviction: %v, the match promised %d", status, c.want)
			}
			mustClose(t, r.s)
		})
	}
}
