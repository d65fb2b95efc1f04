package engine

import (
	"context"
	"testing"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestHostModel: with a cache in memory a store answers as one without, and as
// a map, whatever is done between: to the store, to the index, and to the bytes
// in memory.
func TestHostModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fs := vfs.NewMem()
		o := hostOptions(fs)
		o.HostCacheBytes = rapid.SampledFrom([]int64{300 * kib, mib, 4 * mib}).Draw(rt, "cache")
		s := mustOpen(t, o)
		n := mustSpace(t, s)
		model := map[int]int{} // variant by id
		variant := 0
		size := func(id int) int { return 100 + id*id*500 }
		draw := rapid.IntRange(0, 14)
		expect := func(rt *rapid.T, id int, st Status, same bool) {
			_, stored := model[id]
			if stored && (st != StatusOK || !same) || !stored && st != StatusMiss {
				rt.Fatalf("block %d, stored %v: %v, right bytes %v", id, stored, st, same)
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"put": func(rt *rapid.T) {
				id := draw.Draw(rt, "id")
				variant++
				r := putOne(n, blockOf(id, variant, size(id)))
				if _, stored := model[id]; r.Status != StatusOK || r.Existed != stored {
					rt.Fatalf("put %d: %v %v", id, r.Status, r.Err)
				}
				if !r.Existed {
					model[id] = variant
				}
			},
			"get": func(rt *rapid.T) {
				id := draw.Draw(rt, "id")
				p, r := getBlock(t, n, id, size(id))
				expect(rt, id, r.Status, string(p) == string(contentOf(id, model[id], size(id))))
			},
			"view": func(rt *rapid.T) {
				id := draw.Draw(rt, "id")
				v := n.View(context.Background(), [][]byte{hashOf(id)}, ViewOptions{})[0]
				expect(rt, id, v.Status, string(joinedPlanes(v.Planes)) == string(contentOf(id, model[id], size(id))))
				v.Release()
			},
			"flip": func(rt *rapid.T) {
				id := draw.Draw(rt, "id")
				flipInHost(t, n, id, rapid.IntRange(0, size(id)-1).Draw(rt, "byte"), rapid.IntRange(0, 7).Draw(rt, "bit"))
			},
			"drop": func(rt *rapid.T) {
				id := draw.Draw(rt, "id")
				n.Drop(context.Background(), [][]byte{hashOf(id)})
				delete(model, id)
			},
			"flush": func(rt *rapid.T) { mustFlush(t, s) },
			"bump": func(rt *rapid.T) {
				n = mustBump(t, n)
				clear(model)
			},
			"reopen": func(rt *rapid.T) {
				mustClose(t, s)
				s = mustOpen(t, o)
				n = mustSpace(t, s)
			},
			"": func(rt *rapid.T) {
				if h := s.Stats().Host; h.Bytes > h.CapacityBytes || h.LentBytes != 0 {
					rt.Fatalf("stats %+v", h)
				}
			},
		})
		if q := s.Stats().Quarantined; q != 0 {
			rt.Fatalf("%d blocks quarantined: the disk was sound", q)
		}
		mustClose(t, s)
	})
}
