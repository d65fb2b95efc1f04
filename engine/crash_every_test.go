package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
)

// everyStep is a history of all that a store does: puts of each kind, drops,
// evictions that move blocks on, a quarantine, a new epoch, flushes of the
// index, failed syncs of segments and log with what follows them, closing and
// opening, and a rebuild.
var everyStep = []func(*driver){
	func(d *driver) { d.put(false, 0, 1, 2) },
	func(d *driver) { d.put(true, 3) },
	(*driver).flush,
	func(d *driver) { d.put(false, 4, 5, 6) }, // some share
	func(d *driver) { d.drop(3) },
	(*driver).flushIndex,
	func(d *driver) { d.touch(0, 1, 2) },
	(*driver).roll,
	func(d *driver) { d.put(false, 3, 7) },
	(*driver).evict, // moves on
	func(d *driver) { d.put(false, 8) },
	func(d *driver) { d.quarantine(8) },
	(*driver).roll,
	func(d *driver) { d.sync("sync, apply and seal", d.s.syncAndApply) },
	(*driver).compact,
	func(d *driver) { d.failOnce(vfs.OpSync, segsToo) },
	func(d *driver) { d.put(false, 9) },
	func(d *driver) { d.failOnce(vfs.OpSync, logToo) },
	func(d *driver) { d.failOnce(vfs.OpWrite, logToo) },
	(*driver).reopen,
	func(d *driver) { d.put(false, 4, 9) },
	(*driver).bump,
	func(d *driver) { d.put(false, 0, 1, 5) },
	func(d *driver) { d.drop(1) },
	func(d *driver) { d.sync("sync", d.s.syncOnce) },
	(*driver).rebuild,
	func(d *driver) { d.put(true, 1, 2) },
	func(d *driver) { d.touch(0, 5) },
	(*driver).roll,
	func(d *driver) { d.put(false, 3) },
	(*driver).evict,
	(*driver).flushIndex,
	(*driver).reopen,
}

func (d *driver) touch(keys ...int) {
	for _, k := range keys {
		d.n.Touch(context.Background(), [][]byte{hashOf(k)})
	}
}

// roll makes the next extents go to new segments.
func (d *driver) roll() {
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	for _, seg := range d.s.active {
		if seg != nil {
			d.s.retireLocked(seg)
		}
	}
}

// failOnce has the next operation of a kind on files of a directory fail, in
// a put and the sync that follows it; then the store goes on.
func (d *driver) failOnce(kind vfs.OpKind, dir string) {
	done := false
	d.life.setFailing(func(op vfs.Op) bool {
		if done || op.Kind != kind || !strings.HasPrefix(op.Name, dir+"/") || strings.HasSuffix(op.Name, ".del") {
			return false
		}
		done = true
		return true
	})
	d.put(false, d.rng.IntN(modelKeys))
	d.sync("sync", d.s.syncOnce)
	d.life.setFailing(nil)
	d.mend()
}

// rebuild closes the store and opens it without its index.
func (d *driver) rebuild() {
	d.close()
	if d.life.isCrashed() {
		return
	}
	if err := errors.Join(d.life.mem.RemoveAll(indexDir), d.life.mem.SyncDir(".")); err != nil {
		d.t.Fatal(err)
	}
	d.rebuilding = true
	d.open()
}

func (l *life) setEach(fn func(*life, vfs.Op)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.each = fn
}

func (l *life) setFailing(fn func(vfs.Op) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing = fn
}

// everyLife runs the history of every step up to a crash, or to its end.
// each, if not nil, is called before each operation.
func everyLife(t *testing.T, plan crashPlan, where string, each func(*life, vfs.Op)) crashed {
	t.Helper()
	next := 0
	return runUntilCrash(t, rand.New(rand.NewPCG(7, 1)), crashed{fs: vfs.NewMem(), m: newModel(modelKeys)}, plan, false, where, func(d *driver) {
		d.life.setEach(each)
		if next == len(everyStep) {
			d.life.end()
			return
		}
		d.note("step %d", next)
		everyStep[next](d)
		next++
	})
}

// TestLaw3EveryOperation crashes one history before each of its operations,
// and the Open that follows before each of its own; with SEALSTONE_FULL every
// second one, in every way.
func TestLaw3EveryOperation(t *testing.T) {
	modes := []vfs.CrashOptions{
		{KeepAll: true},
		{},
		{Seed: 1, KeepBytes: 0.5, KeepNames: 0.5, TornSectorBytes: 512},
		{Seed: 2, KeepBytes: 0.5, KeepNames: 1, TornSectorBytes: 4096},
		cutOptions([]string{logToo}),
		cutOptions([]string{segsToo}),
	}
	// every is of the operations of the history, step of those of Open.
	every, step := uint64(151), uint64(31)
	switch {
	case fullTests:
		every, step = 2, 7
	case testing.Short(): // the race detector looks for races, not for crash points
		every, step = 701, 61
	}
	y := faulttest.New(t)
	kinds := &crashKinds{phases: map[string]int{}}
	total := surveyEvery(t, modes[2:4], kinds)
	kinds.wantAll(y)
	n := uint64(len(modes))
	for m, mode := range modes {
		for k := 1 + uint64(m)*every/n; k <= total; k += every {
			crashTwice(t, y, m, crashPlan{at: k, options: mode}, step)
		}
		y.Settle()
	}
	t.Logf("a history of %d operations; crashes leave %v, and come in %v", total, kinds.bytes, kinds.phases)
}

// surveyEvery runs the history without a crash and returns how many operations
// it has; kinds counts what a crash before each of them would do.
func surveyEvery(t *testing.T, modes []vfs.CrashOptions, kinds *crashKinds) uint64 {
	t.Helper()
	out := everyLife(t, crashPlan{at: 1 << 40}, "without a crash", func(l *life, op vfs.Op) {
		for _, o := range modes {
			o.Seed += l.ops
			c := crashed{phase: l.phaseOf(op)}
			_, c.report = l.mem.Crash(o)
			kinds.note(c)
		}
	})
	return out.ops
}

// crashTwice runs the history up to a crash, then crashes the Open that
// follows before each step-th of its operations.
func crashTwice(t *testing.T, y *faulttest.Tally, mode int, plan crashPlan, step uint64) {
	t.Helper()
	where := fmt.Sprintf("mode %d crash before operation %d", mode, plan.at)
	fault := y.Try(where)
	first := everyLife(t, plan, where, nil)
	fault.Fire()
	defer func() {
		if t.Failed() {
			t.Log(strings.Join(first.log, "\n"))
		}
	}()
	auditWreck(t, rand.New(rand.NewPCG(plan.at, 1)), first, false, where)
	fault.Survive()
	for j := 1 + plan.at%step; ; j += step {
		left := first.fs.CrashClone(vfs.CrashOptions{KeepAll: true})
		var clone *vfs.Mem
		o := modelOptions(vfs.WithHook(left, func(op vfs.Op) error {
			if op.Mutates() && op.Index == j {
				clone = left.CrashClone(plan.options)
			}
			return nil
		}))
		s := mustOpen(t, o)
		first.m.snapshot(vfs.CrashOptions{KeepAll: true}).check(t, s, mustSpace(t, s), false, where)
		mustClose(t, s)
		if clone == nil {
			return
		}
		again := y.Try(fmt.Sprintf("%s, and Open before its operation %d", where, j))
		again.Fire()
		s = mustOpen(t, modelOptions(clone))
		first.m.snapshot(vfs.CrashOptions{KeepAll: true}).check(t, s, mustSpace(t, s), false, fmt.Sprintf("%s, and Open before its operation %d", where, j))
		mustClose(t, s)
		again.Survive()
	}
}
