package wal

import (
	"errors"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestModel lets rapid find a short history that breaks a promise: appends,
// syncs, trims, restarts, failures and power cuts in any order.
func TestModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fail := false // the next operation that changes something
		hook := func(op vfs.Op) error {
			if fail && op.Mutates() {
				fail = false
				return syscall.EIO
			}
			return nil
		}
		w := newWorld(rt, vfs.NewMem(), hook)
		ok := func(err error) {
			if errors.Is(err, ErrPoisoned) || errors.Is(err, syscall.EIO) {
				err = w.open() // as an owner does after a failure
			}
			if err != nil {
				rt.Fatal(err)
			}
		}
		ok(w.open())
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				ok(w.append(rapid.SliceOfN(rapid.IntRange(0, 1200), 1, 3).Draw(rt, "sizes")...))
			},
			"sync": func(*rapid.T) { ok(w.sync()) },
			"mark": func(*rapid.T) { ok(w.l.AppendMark()) },
			"trim": func(rt *rapid.T) {
				before := LSN(rapid.Uint64Range(0, uint64(w.durable)).Draw(rt, "before"))
				w.gone = max(w.gone, before)
				ok(w.l.Trim(before))
			},
			"restart": func(*rapid.T) {
				if err := w.close(); err != nil {
					ok(err)
					return
				}
				ok(w.open())
			},
			"fail": func(*rapid.T) { fail = true },
			"crash": func(rt *rapid.T) {
				c := vfs.CrashOptions{
					Seed:            rapid.Uint64().Draw(rt, "seed"),
					KeepBytes:       rapid.Float64Range(0, 1).Draw(rt, "bytes"),
					KeepNames:       rapid.Float64Range(0, 1).Draw(rt, "names"),
					TornSectorBytes: rapid.SampledFrom([]int{0, 512, 4096}).Draw(rt, "torn"),
					KeepAll:         rapid.Bool().Draw(rt, "kill only"),
				}
				mem := w.mem.CrashClone(c)
				w.check(mem, false, "crash")
				fail = false
				groups := survivors(rt, mem, w.groups)
				next := newWorld(rt, mem, hook)
				next.serial, next.gone, next.groups = w.serial, w.gone, groups
				w = next
				ok(w.open())
			},
			"": func(rt *rapid.T) {
				s, used := w.l.Stats(), usedBytes(rt, w)
				if s.Mark > s.Synced || s.Synced > s.End || s.Synced < w.durable || used > s.AllocatedBytes {
					rt.Fatalf("%+v, %d bytes used, durable to %d", s, used, w.durable)
				}
			},
		})
	})
}

// usedBytes is what the files in the log's directory hold.
func usedBytes(t fataler, w *world) (n int64) {
	names, err := w.mem.List(w.o.Dir)
	for _, name := range names {
		info, serr := w.mem.Stat(w.o.Dir + "/" + name)
		n, err = n+info.AllocatedBytes, errors.Join(err, serr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}
