package engine

import (
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
)

// TestFaultRaceQuarantineOvertakesLookup: a lookup that has read where a block
// lies is overtaken by the block's quarantine, which is logged and applied
// before the lookup asks whether the place is known to be bad. The block is
// gone then: a put must store it anew, and not take it for stored.
func TestFaultRaceQuarantineOvertakesLookup(t *testing.T) {
	tally := faulttest.New(t)
	for _, c := range []struct {
		name    string
		applied bool // the block is in the index, not in the overlay
	}{{"block in the overlay", false}, {"block in the index", true}} {
		t.Run(c.name, func(t *testing.T) {
			checkLeaks(t)
			fault := tally.Try("quarantine overtakes a lookup, " + c.name)
			mem, points := vfs.NewMem(), &rendezvous{}
			o := testOptions(mem)
			o.private.points = points.at
			s := mustOpen(t, o)
			n := mustSpace(t, s)
			mustPut(t, n, blockOf(0, 0, raceSize))
			if c.applied {
				mustFlush(t, s)
			}
			e := entryOf(t, s, n, 0)
			held := points.arm(t, "lookup:read")
			put := start(t, "the put", func() PutResult { return putOne(n, blockOf(0, 1, raceSize)) })
			held.wait(t)
			s.quarantine(index.Key{Namespace: n.info.Number, Hash: string(hashOf(0))}, e, "the test says so")
			mustFlush(t, s)
			fault.Fire()
			held.open()
			if r := put(); r.Status != StatusOK || r.Existed {
				t.Fatalf("put: %+v; the block is gone", r)
			}
			mustFlush(t, s)
			afterlives(t, s, mem, o, func(t *testing.T, _ *Store, n *Namespace) { wantBlock(t, n, 0, 1, raceSize) })
			if !t.Failed() {
				fault.Survive()
			}
		})
	}
}
