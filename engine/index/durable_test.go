package index

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/internal/vfs"
)

// setApplied makes a batch with one key and the log position.
func setApplied(t *testing.T, d *DB, lsn uint64) {
	t.Helper()
	mustUpdate(t, d, map[uint64]int64{}, func(u *Batch) error {
		return errors.Join(u.Bind(keyOf(int(lsn)), entryAt(1, uint32(3*lsn), int(lsn), lsn)), u.SetApplied(lsn))
	})
}

func wantApplied(t *testing.T, d *DB, applied, durable uint64) {
	t.Helper()
	got, err := d.Applied(testContext(t))
	if err != nil || got != applied {
		t.Errorf("applied %d, %v, want %d", got, err, applied)
	}
	got, err = d.DurableApplied(testContext(t))
	if err != nil || got != durable {
		t.Errorf("durable up to %d, %v, want %d", got, err, durable)
	}
}

// TestDurableApplied: what DurableApplied answers is there after any power
// cut, with every key up to it; what is beyond it may be gone, but never in
// part.
func TestDurableApplied(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	fs := vfs.NewMem()
	d := mustCreate(t, fs)
	defer mustClose(t, d)
	setApplied(t, d, 10)
	wantApplied(t, d, 10, 0)
	if err := d.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	wantApplied(t, d, 10, 10)
	setApplied(t, d, 20)
	setApplied(t, d, 30)
	wantApplied(t, d, 30, 10)
	for seed := range uint64(40) {
		opts := vfs.CrashOptions{Seed: seed, KeepBytes: float64(seed%3) / 2, KeepNames: float64(seed/3%3) / 2}
		if seed%2 == 0 {
			opts.TornSectorBytes = 512
		}
		clone := fs.CrashClone(opts)
		c, err := Open(testContext(t), testOptions(clone))
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		got, err := c.Applied(testContext(t))
		if err != nil || got < 10 {
			t.Errorf("seed %d: applied %d, %v", seed, got, err)
		}
		for _, lsn := range []uint64{10, 20, 30} {
			if _, ok := lookup(t, c, keyOf(int(lsn))); ok != (lsn <= got) {
				t.Errorf("seed %d: applied up to %d, the key of %d is there: %v", seed, got, lsn, ok)
			}
		}
		mustClose(t, c)
	}
	clone := fs.CrashClone(vfs.CrashOptions{})
	c := mustOpen(t, clone)
	wantApplied(t, c, 10, 10)
	mustClose(t, c)
}

// TestCloseFlushes: a clean close leaves nothing to replay.
func TestCloseFlushes(t *testing.T) {
	fs := vfs.NewMem()
	d := mustCreate(t, fs)
	setApplied(t, d, 5)
	mustClose(t, d)
	d = mustOpen(t, fs.CrashClone(vfs.CrashOptions{}))
	defer mustClose(t, d)
	wantApplied(t, d, 5, 5)
}

// TestCrashAnywhere cuts the power before each write, sync and rename of a
// short life: Open then finds an index that is incomplete, or one with whole
// batches up to some position.
func TestCrashAnywhere(t *testing.T) {
	ops := crashAt(t, 0)
	if ops < 20 {
		t.Fatalf("only %d operations", ops)
	}
	for k := uint64(1); k <= ops; k++ {
		if !testing.Short() || k%4 == 0 {
			crashAt(t, k)
		}
	}
}

// crashAt lives through a history, examines what a cut at the k-th operation
// leaves, and returns how many operations there were.
func crashAt(t *testing.T, k uint64) (ops uint64) {
	t.Helper()
	mem := vfs.NewMem()
	var mu sync.Mutex // Pebble works in the background
	var clones []*vfs.Mem
	var durable uint64 // what DurableApplied said before the cut
	said := uint64(0)
	fs := vfs.WithHook(mem, func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Mutates() {
			ops = max(ops, op.Index)
		}
		if op.Mutates() && op.Index == k && clones == nil {
			said = durable
			for seed := range uint64(3) {
				clones = append(clones, mem.CrashClone(vfs.CrashOptions{Seed: seed, KeepBytes: 0.5 * float64(seed), KeepNames: 0.5 * float64(seed), TornSectorBytes: 4096}))
			}
		}
		return nil
	})
	d := mustCreate(t, fs)
	for lsn := uint64(10); lsn <= 30; lsn += 10 {
		setApplied(t, d, lsn)
		if err := d.Flush(testContext(t)); err != nil {
			t.Fatal(err)
		}
		got, err := d.DurableApplied(testContext(t))
		if err != nil || got != lsn {
			t.Fatalf("durable up to %d after a flush, want %d (%v)", got, lsn, err)
		}
		mu.Lock()
		durable = got
		mu.Unlock()
	}
	mustClose(t, d)
	for seed, clone := range clones {
		if err := afterCrash(t, clone, said); err != nil {
			t.Errorf("cut at operation %d, seed %d, durable up to %d: %v", k, seed, said, err)
		}
	}
	return ops
}

func afterCrash(t *testing.T, fs vfs.FS, durable uint64) error {
	d, err := Open(testContext(t), testOptions(fs))
	if err != nil {
		if durable == 0 && (errors.Is(err, ErrIncomplete) || errors.Is(err, ErrDamaged)) {
			return nil // it never counted: a rebuild begins again
		}
		return err
	}
	defer mustClose(t, d)
	got, err := d.Applied(testContext(t))
	if err != nil {
		return err
	}
	if got < durable {
		return fmt.Errorf("applied up to %d", got)
	}
	for _, lsn := range []uint64{10, 20, 30} {
		if _, ok := lookup(t, d, keyOf(int(lsn))); ok != (lsn <= got) {
			return fmt.Errorf("applied up to %d, the key of %d is there: %v", got, lsn, ok)
		}
	}
	return nil
}
