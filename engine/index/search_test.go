package index

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestGetOfMany: whatever is asked for, in any order, as often as one likes, a
// call cut into parts answers as one that asks for key after key.
func TestGetOfMany(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := mustCreate(t, vfs.NewMem())
	defer mustClose(t, d)
	const stored = 2000
	mustUpdate(t, d, map[uint64]int64{}, func(u *Batch) error {
		for i := range stored {
			if err := u.Bind(keyOf(i), entryAt(1, uint32(1+3*i), i, uint64(i+1))); err != nil {
				return err
			}
		}
		return nil
	})
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 12*partKeys).Draw(rt, "keys")
		ids := make([]int, n)
		first := rapid.IntRange(0, stored-1).Draw(rt, "first")
		for i := range ids {
			ids[i] = (first + 7*i) % stored
		}
		for range rapid.IntRange(0, 3).Draw(rt, "misses") {
			if n > 0 {
				ids[rapid.IntRange(0, n-1).Draw(rt, "miss")] = stored + 5
			}
		}
		stop := rapid.Bool().Draw(rt, "stop at miss")
		keys := make([]Key, n)
		for i, id := range ids {
			keys[i] = keyOf(id)
		}
		got, err := d.Get(testContext(t), keys, stop)
		if err != nil || len(got) != n {
			rt.Fatalf("%d answers, %v", len(got), err)
		}
		missed := false
		for i, id := range ids {
			missed = missed && stop || id >= stored
			want := Found{}
			if !missed {
				want = Found{entryAt(1, uint32(1+3*id), id, uint64(id+1)), true}
			}
			if got[i] != want {
				rt.Fatalf("key %d of %d (block %d): %+v, want %+v", i, n, id, got[i], want)
			}
		}
	})
}

// TestGetOfManyFails: an error of any part is that of the call, and all parts
// have ended when it returns.
func TestGetOfManyFails(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	mem := vfs.NewMem()
	d := mustCreate(t, mem)
	var keys []Key
	mustUpdate(t, d, map[uint64]int64{}, func(u *Batch) error {
		for i := range 1000 {
			keys = append(keys, keyOf(i))
			if err := u.Bind(keyOf(i), entryAt(1, uint32(1+3*i), i, uint64(i+1))); err != nil {
				return err
			}
		}
		return nil
	})
	mustClose(t, d)
	var fail atomic.Bool
	d = mustOpen(t, vfs.WithHook(mem, func(op vfs.Op) error {
		if fail.Load() && op.Kind == vfs.OpRead {
			return fmt.Errorf("read: %w", syscall.EIO)
		}
		return nil
	}))
	defer mustClose(t, d)
	fail.Store(true)
	if _, err := d.Get(testContext(t), slices.Clone(keys), false); !errors.Is(err, syscall.EIO) {
		t.Errorf("with a device that fails: %v", err)
	}
	fail.Store(false)
	if found, err := d.Get(testContext(t), keys, true); err != nil || !found[999].OK {
		t.Errorf("with a device that works again: %v", err)
	}
}

// BenchmarkGet is for what a call costs by the number of keys.
func BenchmarkGet(b *testing.B) {
	d := mustCreate(b, vfs.NewMem())
	defer mustClose(b, d)
	var keys []Key
	mustUpdate(b, d, map[uint64]int64{}, func(u *Batch) error {
		for i := range 20000 {
			keys = append(keys, keyOf(i))
			if err := u.Bind(keyOf(i), entryAt(1, uint32(1+3*i), i, uint64(i+1))); err != nil {
				return err
			}
		}
		return nil
	})
	for _, n := range []int{1, 16, 100, 1000} {
		b.Run(fmt.Sprintf("%d keys", n), func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				from := i * n % (len(keys) - n)
				if _, err := d.Get(testContext(b), keys[from:from+n], true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
