package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
)

// TestVerifyCrashed: no crash leaves damage, whatever it interrupts, and what
// Verify says of the directory is what the next Open makes of it.
func TestVerifyCrashed(t *testing.T) {
	seeds := uint64(60)
	if os.Getenv("SEALSTONE_FULL") != "" {
		seeds = 3000
	} else if testing.Short() {
		seeds = 10
	}
	for seed := range seeds {
		verifyCrashed(t, seed)
	}
}

func verifyCrashed(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 99))
	mem := vfs.NewMem()
	for round := range 2 {
		fs, how := crashVerified(t, rng, mem)
		where := fmt.Sprintf("seed %d round %d, %s", seed, round, how)
		if rng.IntN(6) == 0 {
			where += ", index lost"
			if err := fs.RemoveAll(indexDir); err != nil {
				t.Fatal(err)
			}
		}
		before := fs.CrashClone(vfs.CrashOptions{KeepAll: true})
		r := mustVerify(t, fs)
		wantSameTree(t, before, fs)
		if r.Damaged != 0 {
			t.Fatalf("%s: %d findings: %v", where, r.Damaged, r.Damage)
		}
		checkPrediction(t, fs, r, where)
		if r := mustVerify(t, fs); r.Damaged != 0 {
			t.Fatalf("%s: after another open: %v", where, r.Damage)
		}
		mem = fs
		if t.Failed() {
			t.Fatalf("%s", where)
		}
	}
}

func smallSegments(fs vfs.FS) Options {
	o := testOptions(fs)
	o.MaxBlockBytes, o.SegmentBytes, o.CapacityBytes = 16*kib, 96*kib, 4*mib
	o.private.memTableBytes = 64 * kib
	return o
}

// crashVerified does random operations until a crash in the middle of one.
func crashVerified(t *testing.T, rng *rand.Rand, mem *vfs.Mem) (fs *vfs.Mem, how string) {
	t.Helper()
	keep := []float64{0, 0.5, 1}
	o := vfs.CrashOptions{Seed: rng.Uint64(), KeepAll: rng.IntN(3) == 0, KeepBytes: keep[rng.IntN(3)], KeepNames: keep[rng.IntN(3)],
		TornSectorBytes: []int{0, 512, 4096}[rng.IntN(3)]}
	at := 1 + uint64(rng.IntN(150))
	how = fmt.Sprintf("crash before operation %d: %+v", at, o)
	var mu sync.Mutex
	hooked := vfs.WithHook(mem, func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Mutates() && op.Index >= at && fs == nil {
			fs = mem.CrashClone(o)
		}
		return nil
	})
	s := mustOpen(t, smallSegments(hooked))
	n := mustSpace(t, s)
	for crashed := false; !crashed; {
		n = verifyStep(t, rng, s, n)
		mu.Lock()
		crashed = fs != nil
		mu.Unlock()
	}
	mustClose(t, s)
	if _, err := fs.Stat("STORE"); err != nil { // before there was a store
		return crashVerified(t, rng, vfs.NewMem())
	}
	return fs, how
}

func verifyStep(t *testing.T, rng *rand.Rand, s *Store, n *Namespace) *Namespace {
	t.Helper()
	ctx, id := context.Background(), rng.IntN(12)
	switch p := rng.IntN(100); {
	case p < 50:
		b := blockOf(rng.IntN(5), 0, 100+rng.IntN(3)*6000) // few contents: some are shared
		b.Hash = hashOf(id)
		n.Put(ctx, []PutBlock{b}, PutOptions{})
	case p < 64:
		n.Drop(ctx, [][]byte{hashOf(id)})
	case p < 72:
		s.syncOnce()
	case p < 80:
		mustFlush(t, s)
	case p < 86:
		_ = s.idx.Flush(ctx)
	case p < 90:
		n.Touch(ctx, [][]byte{hashOf(id)})
	case p < 92:
		found, err := s.lookup(ctx, []index.Key{{Namespace: 1, Hash: string(hashOf(id))}}, false)
		if err == nil && found[0].ok { // as if a get had found it bad
			s.Resume()
			s.quarantine(index.Key{Namespace: 1, Hash: string(hashOf(id))}, found[0].entry, "test")
		}
	case p < 98:
		if _, err := s.EvictOnce(ctx); err != nil {
			t.Fatal(err)
		}
	default:
		next, err := n.BumpEpoch(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return next
	}
	return n
}

// checkPrediction opens the store and compares its index with the report.
func checkPrediction(t *testing.T, fs vfs.FS, r *VerifyReport, where string) {
	t.Helper()
	s := mustOpen(t, smallSegments(fs))
	defer mustClose(t, s)
	if (s.rebuilds > 0) != (r.Index.Rebuild != "") {
		t.Errorf("%s: rebuilds %d, the report says %q", where, s.rebuilds, r.Index.Rebuild)
	}
	blocks, all := int64(0), int64(0)
	err := s.idx.Keys(context.Background(), func(k index.KeyEntry) error {
		all++
		if k.Seq >= s.floorLocked(k.Namespace) {
			blocks++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if blocks != r.Blocks && (r.Index.Rebuild == "" || blocks > r.Blocks) {
		t.Errorf("%s: the store has %d blocks (%d with dead ones), the report says %d: %+v", where, blocks, all, r.Blocks, r)
	}
	if got := s.count.unproven.Load(); got != int64(r.Log.Unproven) {
		t.Errorf("%s: %d records were unproven, the report says %d", where, got, r.Log.Unproven)
	}
}
