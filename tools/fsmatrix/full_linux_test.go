package fsmatrix

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
)

// TestFaultFullDisk: somebody else fills the file system that a store lives
// on. Puts are shed or fail, each with its status; gets go on; and when the
// space is there again, puts are stored without a reopen (field case 34).
func TestFaultFullDisk(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs", "btrfs"} {
		t.Run(kind, func(t *testing.T) {
			at := diskFS(t, kind, 512)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			fault := counted(t, "no space left on "+kind)
			x := &fixture{dir: filepath.Join(at, "store")}
			x.open(t, ctx, engine.PathAuto)
			defer func() { x.close(t, context.WithoutCancel(ctx)) }()
			if err := allOK(put(ctx, x.n, 0, fixtureBlocks, true)); err != nil {
				t.Fatal(err)
			}
			free := takeAll(t, filepath.Join(at, "filler"))
			stored := putUntilRefused(t, ctx, x)
			fault.Fire()
			wantAllButEvicted(t, ctx, x, stored)
			free()
			x.recovers(t, ctx, stored, stored+fixtureBlocks)
			wantAllButEvicted(t, ctx, x, stored+fixtureBlocks)
		})
	}
}

// wantAllButEvicted reads the first n blocks. To store new ones on a full file
// system the store makes room among its oldest; those are misses.
func wantAllButEvicted(t *testing.T, ctx context.Context, x *fixture, n int) {
	t.Helper()
	hits := x.gets(t, ctx, 0, n, engine.StatusOK, engine.StatusMiss)
	if evicted := x.s.Stats().EvictedBlocks; hits == 0 || int64(hits)+evicted < int64(n) {
		t.Errorf("of %d blocks %d were found, %d evicted", n, hits, evicted)
	}
}

// putUntilRefused puts one block after the other until one is not stored, and
// returns how many are.
func putUntilRefused(t *testing.T, ctx context.Context, x *fixture) int {
	t.Helper()
	for id := fixtureBlocks; ; id++ {
		r := put(ctx, x.n, id, id+1, true)[0]
		switch r.Status {
		case engine.StatusOK:
		case engine.StatusShed, engine.StatusIOError:
			t.Logf("block %d: %v: %v; health %+v", id, r.Status, r.Err, x.s.Health())
			return id
		default:
			t.Fatalf("block %d: %v: %v", id, r.Status, r.Err)
		}
	}
}

// takeAll fills the file system that name is on. The function returned gives
// the space back.
func takeAll(t *testing.T, name string) func() {
	t.Helper()
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 4 * mib; size >= 4096; size /= 2 {
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		err = nil
	}
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}
