package fsmatrix

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tiers/disk"
)

// stalling holds back the answers to requests of a kind until released.
type stalling struct {
	held    chan struct{}
	release func()
	reached chan struct{}
}

func newStalling(f *faulty, matches func(op) bool) *stalling {
	s := &stalling{held: make(chan struct{}), reached: make(chan struct{})}
	s.release = sync.OnceFunc(func() { f.be(nil); close(s.held) })
	reach := sync.OnceFunc(func() { close(s.reached) })
	f.be(func(o op) verdict {
		if !matches(o) {
			return verdict{}
		}
		reach()
		return verdict{wait: s.held}
	})
	return s
}

// soon is a deadline that a call has to keep while the file system hangs.
func soon() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 300*time.Millisecond)
}

// TestFaultFuseStallsReads: while reads hang, gets end in a miss by their deadline,
// their memory untouched, and Close says by its own that requests are under
// way; it ends when they did.
func TestFaultFuseStallsReads(t *testing.T) {
	f := mountFaulty(t, false)
	for _, path := range choices {
		t.Run(string(path), func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			x := newFixture(t, ctx, f, path)
			f.counted(t, "reads hang, path "+string(path))
			stall := newStalling(f, func(o op) bool { return o.kind == opRead && o.segment() })
			defer stall.release()
			for range 3 {
				short, end := soon()
				if ok := x.gets(t, short, 0, fixtureBlocks, engine.StatusTimeout, engine.StatusShed, engine.StatusMiss); ok != 0 {
					t.Errorf("%d blocks are OK while reads hang", ok)
				}
				end()
			}
			<-stall.reached
			short, end := soon()
			if err := x.s.Close(short); !errors.Is(err, engine.ErrClosing) && !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("close while reads hang: %v", err)
			}
			end()
			stall.release()
			x.close(t, ctx)
			x.open(t, ctx, path)
			x.gets(t, ctx, 0, fixtureBlocks, engine.StatusOK)
			x.close(t, ctx)
			remove(t, x.dir)
		})
	}
}

// TestFaultFuseStallsWrites: while writes or syncs hang, puts end by their deadline
// and are wholly there later, or not at all; what was stored is served.
func TestFaultFuseStallsWrites(t *testing.T) {
	f := mountFaulty(t, false)
	for _, kind := range []opKind{opWrite, opSync} {
		for _, path := range choices {
			t.Run(string(kind)+" "+string(path), func(t *testing.T) {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				x := newFixture(t, ctx, f, path)
				f.counted(t, string(kind)+"s hang, path "+string(path))
				stall := newStalling(f, func(o op) bool { return o.kind == kind && o.segment() })
				defer stall.release()
				short, end := soon()
				for i, r := range put(short, x.n, 100, 104, true) {
					if r.Status != engine.StatusTimeout && r.Status != engine.StatusShed {
						t.Errorf("put %d: %v: %v", i, r.Status, r.Err)
					}
				}
				end()
				<-stall.reached
				x.gets(t, ctx, 0, fixtureBlocks, engine.StatusOK)
				short, end = soon()
				if err := x.s.Close(short); err == nil {
					t.Error("close is done while writes hang")
				} else {
					t.Logf("close: %v", err)
				}
				end()
				stall.release()
				x.close(t, ctx)
				x.open(t, ctx, path)
				x.gets(t, ctx, 0, fixtureBlocks, engine.StatusOK)
				x.gets(t, ctx, 100, 104, engine.StatusOK, engine.StatusMiss)
				x.close(t, ctx)
				remove(t, x.dir)
			})
		}
	}
}

// TestFaultFuseStallsProbe: a file system that hangs from the start is refused in
// bounded time, path by path.
func TestFaultFuseStallsProbe(t *testing.T) {
	if !full {
		t.Skip("waits for the probe's own deadline; set SEALSTONE_FULL=1")
	}
	f := mountFaulty(t, false)
	f.counted(t, "a probe's writes hang")
	stall := newStalling(f, func(o op) bool { return o.direct && o.kind == opWrite && o.scratch() })
	defer stall.release()
	s, err := engine.Open(filepath.Join(f.at, "store"), options(engine.PathAuto))
	if err != nil {
		t.Fatal(err)
	}
	r := s.ProbeReport()
	if r.Proven(disk.PathPread) || r.Proven(disk.PathUring) || r.Chosen != disk.PathBuffered ||
		!strings.Contains(r.Path(disk.PathPread).Reason, "no answer within") {
		t.Errorf("nothing came back past the page cache, and: %s", r.Summary())
	}
	stall.release()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
}
