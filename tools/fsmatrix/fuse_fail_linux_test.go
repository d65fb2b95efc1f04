package fsmatrix

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
)

// failing answers requests of a kind for some files with an error.
func failing(kind opKind, errno syscall.Errno, files func(op) bool) func(op) verdict {
	return func(o op) verdict {
		if o.kind == kind && files(o) {
			return verdict{errno: errno}
		}
		return verdict{}
	}
}

func logFile(o op) bool {
	return strings.HasPrefix(filepath.Base(o.name), "0") && strings.HasSuffix(o.name, ".wal")
}

// fixture is a store on a faulty file system with blocks [0, fixtureBlocks).
type fixture struct {
	f   *faulty
	dir string
	s   *engine.Store
	n   *engine.Namespace
}

const fixtureBlocks = 16

func newFixture(t *testing.T, ctx context.Context, f *faulty, path engine.PathChoice) *fixture {
	t.Helper()
	f.be(nil)
	x := &fixture{f: f, dir: filepath.Join(f.at, "store-"+string(path))}
	x.open(t, ctx, path)
	if err := allOK(put(ctx, x.n, 0, fixtureBlocks, true)); err != nil {
		t.Fatal(err)
	}
	if err := x.s.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *fixture) open(t *testing.T, ctx context.Context, path engine.PathChoice) {
	t.Helper()
	var err error
	if x.s, err = engine.Open(x.dir, options(path)); err != nil {
		t.Fatal(err)
	}
	if x.n, err = space(ctx, x.s); err != nil {
		t.Fatal(err)
	}
}

func (x *fixture) close(t *testing.T, ctx context.Context) {
	t.Helper()
	if err := x.s.Close(ctx); err != nil {
		t.Errorf("close: %v", err)
	}
}

// gets reads [from, to); no byte may be wrong, and each status must be allowed.
func (x *fixture) gets(t *testing.T, ctx context.Context, from, to int, allowed ...engine.Status) (ok int) {
	t.Helper()
	got, err := get(ctx, x.n, from, to)
	if err != nil {
		t.Fatal(err)
	}
	for i, g := range got {
		if !slices.Contains(allowed, g.Status) {
			t.Errorf("block %d: %v: %v", from+i, g.Status, g.Err)
		}
		if g.Status == engine.StatusOK {
			ok++
		}
	}
	return ok
}

// recovers waits until puts are stored again, asking for a resume as an
// operator would.
func (x *fixture) recovers(t *testing.T, ctx context.Context, from, to int) {
	t.Helper()
	for {
		err := allOK(put(ctx, x.n, from, to, true))
		if err == nil {
			return
		}
		x.s.Resume()
		select {
		case <-ctx.Done():
			t.Fatalf("the store does not recover: %v; health %+v", err, x.s.Health())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// TestFaultFuseFails: errors of the file system are statuses of the blocks that
// they hit; nothing is lost that was durable, and the store goes on when they
// end.
func TestFaultFuseFails(t *testing.T) {
	segment := op.segment
	for _, c := range []struct {
		name string
		rule func(op) verdict
		puts []engine.Status // what puts may end in
		gets []engine.Status // what gets of stored blocks may end in
	}{
		{"EIO at read", failing(opRead, syscall.EIO, segment), nil, []engine.Status{engine.StatusIOError}},
		{"EIO at write", failing(opWrite, syscall.EIO, segment), []engine.Status{engine.StatusIOError, engine.StatusShed}, nil},
		{"ENOSPC at write", failing(opWrite, syscall.ENOSPC, segment), []engine.Status{engine.StatusShed}, nil},
		{"EDQUOT at write", failing(opWrite, syscall.EDQUOT, segment), []engine.Status{engine.StatusShed}, nil},
		{"EIO at sync", failing(opSync, syscall.EIO, segment), []engine.Status{engine.StatusIOError, engine.StatusShed}, nil},
		{"EIO at write of the log", failing(opWrite, syscall.EIO, logFile), []engine.Status{engine.StatusIOError, engine.StatusShed}, nil},
		{"EIO at sync of the log", failing(opSync, syscall.EIO, logFile), []engine.Status{engine.StatusIOError, engine.StatusShed}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := mountFaulty(t, false)
			for _, path := range choices {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				defer cancel()
				x := newFixture(t, ctx, f, path)
				f.counted(t, c.name+", path "+string(path))
				before := f.lied.Load()
				f.be(c.rule)
				const some = 100
				for i, r := range put(ctx, x.n, some, some+8, true) {
					if c.puts != nil && !slices.Contains(c.puts, r.Status) || c.puts == nil && r.Status != engine.StatusOK {
						t.Errorf("%s: put %d: %v: %v", path, i, r.Status, r.Err)
					}
				}
				if c.gets == nil {
					c.gets = []engine.Status{engine.StatusOK}
				}
				x.gets(t, ctx, 0, fixtureBlocks, c.gets...)
				if f.lied.Load() == before {
					t.Errorf("%s: nothing failed", path)
				}
				f.be(nil)
				x.recovers(t, ctx, 200, 208)
				x.gets(t, ctx, 0, fixtureBlocks, engine.StatusOK)
				x.gets(t, ctx, 200, 208, engine.StatusOK)
				x.gets(t, ctx, some, some+8, engine.StatusOK, engine.StatusMiss)
				x.close(t, ctx)
				x.open(t, ctx, path)
				x.gets(t, ctx, 0, fixtureBlocks, engine.StatusOK)
				x.gets(t, ctx, 200, 208, engine.StatusOK)
				x.gets(t, ctx, some, some+8, engine.StatusOK, engine.StatusMiss)
				x.close(t, ctx)
				remove(t, x.dir)
			}
		})
	}
}
