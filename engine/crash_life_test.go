package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"

	"github.com/sealstone/sealstone/internal/vfs"
)

// failPlan are operations that fail while the store lives: from one on, in
// some files, so many.
type failPlan struct {
	at    uint64
	count int
	index bool // also in the index's files; else only elsewhere
	late  bool // it is done, and reported as failed
	errno syscall.Errno
}

func (p failPlan) String() string {
	if p.count == 0 {
		return "nothing"
	}
	return fmt.Sprintf("%d from operation %d on with %v (index %v, done nevertheless %v)", p.count, p.at, p.errno, p.index, p.late)
}

func randomFailure(rng *rand.Rand, lifetime int) failPlan {
	return failPlan{
		at: 1 + uint64(rng.IntN(lifetime)), count: []int{1, 1, 2, 5}[rng.IntN(4)], index: rng.IntN(8) == 0, late: rng.IntN(3) == 0,
		errno: []syscall.Errno{syscall.EIO, syscall.EIO, syscall.ENOSPC}[rng.IntN(3)],
	}
}

// life is one life of a store: what happens to its file system.
type life struct {
	mem    *vfs.Mem
	hooked vfs.FS
	m      *crashModel
	plan   crashPlan

	mu    sync.Mutex
	out   crashed
	doing string
	left  int // operations still to fail
	// failing, if set, says instead of the plan what fails.
	failing func(vfs.Op) bool
	each    func(*life, vfs.Op) // called before each operation, under mu
	ops     uint64              // done so far
	fired   int
	// checked: what an Open found was taken over into the model.
	checked bool
}

func (l *life) noteChecked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.checked = true
}

// hook is asked before each operation.
func (l *life) hook(op vfs.Op) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !op.Mutates() {
		return nil
	}
	l.ops = max(l.ops, op.Index)
	if l.each != nil {
		l.each(l, op)
	}
	if op.Index >= l.plan.at {
		l.crashLocked(op)
	}
	return l.failLocked(op)
}

func (l *life) crashLocked(op vfs.Op) {
	if l.out.fs != nil {
		return
	}
	l.out.phase, l.out.unchecked = l.phaseOf(op), !l.checked
	l.out.m = l.m.snapshot(l.plan.options)
	l.out.fs, l.out.report = l.mem.Crash(l.plan.options)
}

func (l *life) phaseOf(op vfs.Op) string {
	if strings.HasPrefix(op.Name, "STORE") || strings.HasPrefix(op.Name, "NAMESPACES") {
		return phaseMeta
	}
	return l.doing
}

func (l *life) failLocked(op vfs.Op) error {
	p := l.plan.fail
	if l.failing != nil {
		if !l.failing(op) {
			return nil
		}
		l.fired++
		return syscall.EIO
	}
	if l.left == 0 || op.Index < p.at || op.Kind == vfs.OpLock || strings.HasPrefix(op.Name, indexDir) && !p.index {
		return nil
	}
	l.left--
	l.fired++
	if p.late {
		return &vfs.LateError{Err: p.errno}
	}
	return p.errno
}

// end has the crash come now, if it has not come yet.
func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.crashLocked(vfs.Op{})
}

func (l *life) isCrashed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.fs != nil
}

// failures is how many operations have failed.
func (l *life) failures() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fired
}

// begin says what the store will be doing from now on; the end says that it
// is at rest.
func (l *life) begin(phase string) (end func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.doing
	l.doing = phase
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.doing = before
	}
}

// What a store does when a crash comes. The run of many seeds must meet each.
const (
	phaseOpen    = "recovery"
	phaseRebuild = "rebuild"
	phaseClose   = "close"
	phasePut     = "put"
	phaseDrop    = "drop"
	phaseSync    = "sync and apply"
	phaseIndex   = "flush of the index"
	phaseEvict   = "eviction"
	phaseCompact = "compaction"
	phaseBad     = "quarantine"
	phaseMeta    = "replacement of STORE or NAMESPACES"
	phaseResume  = "resume"
)

var allPhases = []string{
	phaseOpen, phaseRebuild, phaseClose, phasePut, phaseDrop, phaseSync,
	phaseIndex, phaseEvict, phaseCompact, phaseBad, phaseMeta, phaseResume,
}

// open opens the store of a life. Where an operation fails Open may, and is
// tried again, as an operator would.
func (d *driver) open() {
	d.t.Helper()
	phase := phaseOpen
	if d.rebuilding {
		phase = phaseRebuild
	}
	defer d.life.begin(phase)()
	o := modelOptions(d.life.hooked)
	o.MoveShare = d.moveShare
	for try := 0; ; try++ {
		before := d.life.failures()
		s, err := Open("mem", o)
		if err == nil {
			d.s = s
			break
		}
		d.note("open: %v", err)
		if d.life.failures() == before || try == failuresMax {
			d.t.Fatalf("%s: open: %v", d.where, err)
		}
	}
	d.space()
	if d.hurt() && d.s.writable() != nil {
		d.note("opened, and can not go on: %v", d.s.Health().Reasons)
		d.life.end()
	}
	if d.n == nil || d.life.isCrashed() && d.hurt() {
		return
	}
	d.m.check(d.t, d.s, d.n, d.lostLog, d.where)
	d.healed, d.lostLog = d.life.failures(), false
	d.life.noteChecked()
}

// failuresMax is more than a plan lets fail.
const failuresMax = 10

// reopen closes the store and opens it again.
func (d *driver) reopen() {
	d.t.Helper()
	d.note("close and open")
	d.close()
	if d.life.isCrashed() {
		return
	}
	d.rebuilding = false
	d.open()
}

// close closes the store; with a failure on the way its end is one by a crash.
func (d *driver) close() {
	d.t.Helper()
	defer d.life.begin(phaseClose)()
	hurt := d.hurt()
	s := d.s
	d.s = nil
	err := s.Close(context.Background())
	switch {
	case err == nil && !hurt && !d.hurt():
		d.allDurable()
	case err != nil && !d.hurt():
		d.t.Fatalf("%s: close: %v", d.where, err)
	default:
		d.life.end()
	}
}

// end closes the store after the crash.
func (d *driver) end() {
	if d.s != nil {
		d.close()
	}
}

// hurt: an operation has failed, and the store has not got over it.
func (d *driver) hurt() bool { return d.life.failures() > d.healed }

// mend has the store go on after a failure, and holds what it serves meanwhile
// and afterwards against the model. What can not be mended ends the life.
func (d *driver) mend() {
	d.t.Helper()
	for d.s != nil && d.hurt() && !d.life.isCrashed() {
		d.reconcile("after a failure")
		resumed := false
		for try := 0; d.s.writable() != nil && d.s.idx.Err() == nil && try < failuresMax; try++ {
			resumed = d.resume()
		}
		if d.s.writable() != nil {
			d.note("not mended: %v", d.s.Health().Reasons)
			d.life.end()
			return
		}
		d.healed = d.life.failures()
		d.reconcile("mended")
		if resumed && !d.hurt() {
			d.allDurable()
		}
		if d.anyMayMiss() { // a pass of eviction was given up: it goes on
			d.evict()
		}
	}
}

func (d *driver) resume() bool {
	defer d.life.begin(phaseResume)()
	err := d.s.resume(context.Background())
	d.note("resume: %v", err)
	return err == nil
}

func (d *driver) anyMayMiss() (any bool) {
	d.m.all(func(k *modelKey) { any = any || k.mayMiss })
	return any
}

// reconcile takes over what a failure has made of the keys. What is durable is
// there, in any case.
func (d *driver) reconcile(where string) {
	d.t.Helper()
	if d.s.Health().State == HealthAllMiss {
		return
	}
	for k := range modelKeys {
		got, status := readContent(d.n, k)
		d.m.with(k, func(mk *modelKey) {
			if err := mk.reconcile(got, status); err != nil {
				d.t.Fatalf("%s %s: key %d: %v", d.where, where, k, err)
			}
		})
	}
}

func (mk *modelKey) reconcile(got int, status Status) error {
	if status == StatusCorrupt { // a quarantine that is not applied yet
		status = StatusMiss
	}
	switch {
	case status == StatusMiss && mk.mayMiss:
	case status == StatusMiss && mk.set && mk.durable && !mk.dropTried:
		return fmt.Errorf("content %d is durable, and missing", mk.content)
	case status == StatusMiss && mk.set: // withdrawn, or dropped
		mk.set, mk.dropTried = false, false
		mk.orphans = map[int]bool{mk.content: true}
	case status == StatusMiss:
	case status != StatusOK:
		return fmt.Errorf("status %v", status)
	case mk.set && got == mk.content && !mk.gone:
	case !mk.set && mk.orphans[got]:
		mk.set, mk.content, mk.durable, mk.gone = true, got, false, false
	default:
		return fmt.Errorf("found content %d; set %v content %d gone %v orphans %v", got, mk.set, mk.content, mk.gone, mk.orphans)
	}
	return nil
}
