package fsmatrix

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tiers/disk"
)

type lie struct {
	name string
	tell func(*faultyFile, []byte, int64)
	// whole: no block comes through. The others spare neighbours in one read.
	whole bool
}

var lies = []lie{{"zeros", zeros, true}, {"shifted", shifted, true}, {"flipped", flipped, false}, {"halved", halved, false}}

// lying tells a lie to reads of some files.
func lying(l lie, matches func(op) bool) func(op) verdict {
	return func(o op) verdict {
		if o.kind == opRead && matches(o) {
			return verdict{lie: l.tell}
		}
		return verdict{}
	}
}

// TestFaultFuseLiesToProbe: where bytes that go past the page cache come back
// other than they were written, or are dropped, these paths are refused for
// their content and the store goes through the page cache.
func TestFaultFuseLiesToProbe(t *testing.T) {
	rules := map[string]func(op) verdict{
		"dropped": func(o op) verdict { return verdict{drop: o.kind == opWrite && o.direct} },
	}
	for _, l := range lies {
		rules[l.name] = lying(l, func(o op) bool { return o.direct })
	}
	for l, rule := range rules {
		t.Run(l, func(t *testing.T) {
			f := mountFaulty(t, false)
			f.counted(t, "probe lied to: "+l)
			f.be(rule)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			dir := filepath.Join(f.at, "store")
			r, err := exercise(ctx, dir, engine.PathAuto, false)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range []disk.PathName{disk.PathPread, disk.PathUring} {
				p := r.Probe.Path(name)
				// What was never written is not even there to be compared.
				if p.State == disk.PathProven || name == disk.PathPread && !p.Content && l != "dropped" {
					t.Errorf("%+v, want it refused for its content", p)
				}
			}
			if r.Probe.Chosen != disk.PathBuffered || f.lied.Load() == 0 {
				t.Errorf("chosen %s, %d lies", r.Probe.Chosen, f.lied.Load())
			}
			remove(t, dir)
			_, err = exercise(ctx, dir, engine.PathPread, false)
			wantRefused(t, engine.PathPread, err, "direct read: ")
		})
	}
}

// TestFaultFuseLiesLater: a file system that turns to lies after the probe serves
// no wrong byte: blocks come by another path or not at all.
func TestFaultFuseLiesLater(t *testing.T) {
	for _, l := range lies {
		for _, path := range choices {
			t.Run(l.name+" "+string(path), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				f := mountFaulty(t, false)
				x := newFixture(t, ctx, f, path)
				f.counted(t, l.name+" read, path "+string(path))
				f.be(lying(l, op.segment))
				for range 3 {
					if ok := x.gets(t, ctx, 0, fixtureBlocks, engine.StatusOK, engine.StatusCorrupt, engine.StatusMiss, engine.StatusIOError); ok != 0 && l.whole {
						t.Errorf("%d blocks are OK while all reads lie", ok)
					}
				}
				if f.lied.Load() == 0 {
					t.Error("no read was lied to")
				}
				f.be(nil)
				x.gets(t, ctx, 0, fixtureBlocks, engine.StatusOK, engine.StatusCorrupt, engine.StatusMiss)
				x.close(t, ctx)
				x.open(t, ctx, path)
				x.gets(t, ctx, 0, fixtureBlocks, engine.StatusOK, engine.StatusCorrupt, engine.StatusMiss)
				// What was lost by lies can be put again.
				x.recovers(t, ctx, 0, fixtureBlocks)
				x.gets(t, ctx, 0, fixtureBlocks, engine.StatusOK)
				x.close(t, ctx)
			})
		}
	}
}

// TestFaultFuseLiesToOnePath: while only reads past the page cache lie, what they
// return is not served, and the buffered path serves the block.
func TestFaultFuseLiesToOnePath(t *testing.T) {
	for _, l := range lies {
		t.Run(l.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			f := mountFaulty(t, false)
			x := newFixture(t, ctx, f, engine.PathAuto)
			f.counted(t, l.name+" read past the page cache only")
			f.be(lying(l, func(o op) bool { return o.direct && o.segment() }))
			if ok := x.gets(t, ctx, 0, fixtureBlocks, engine.StatusOK); ok != fixtureBlocks {
				t.Errorf("%d of %d blocks served", ok, fixtureBlocks)
			}
			if st := x.s.Stats(); st.Quarantined != 0 || st.PathsDemoted == 0 {
				t.Errorf("%d blocks quarantined, paths %+v", st.Quarantined, st.Paths)
			}
			x.close(t, ctx)
		})
	}
}
