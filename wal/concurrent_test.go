package wal

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/internal/vfs"
)

// gate stops operations of one kind at a log's file until told how to go on.
type gate struct {
	on      atomic.Bool
	kind    vfs.OpKind
	reached chan struct{}
	answer  chan error
}

func newGate(kind vfs.OpKind) *gate {
	return &gate{kind: kind, reached: make(chan struct{}), answer: make(chan error)}
}

func (g *gate) hook(op vfs.Op) error {
	if op.Kind != g.kind || !g.on.CompareAndSwap(true, false) {
		return nil
	}
	g.reached <- struct{}{}
	return <-g.answer
}

// start runs f until the gate holds it; the channel gives f's error.
func (g *gate) start(f func() error) <-chan error {
	g.on.Store(true)
	done := make(chan error, 1)
	go func() { done <- f() }()
	<-g.reached
	return done
}

// TestAppendDuringSync: an append does not wait for a running sync, and is
// not covered by it.
func TestAppendDuringSync(t *testing.T) {
	defer goleak.VerifyNone(t)
	g := newGate(vfs.OpSync)
	o := testOptions(vfs.WithHook(vfs.NewMem(), g.hook))
	l := mustCreate(t, o, 0)
	_, before := mustAppend(t, l, "before")
	var got LSN
	done := g.start(func() (err error) { got, err = l.Sync(); return err })
	_, end := mustAppend(t, l, "meanwhile")
	g.answer <- nil
	if err := <-done; err != nil || got != before {
		t.Fatalf("synced to %d, %v; want %d", got, err, before)
	}
	if got := mustSync(t, l); got != end {
		t.Fatalf("synced to %d, want %d", got, end)
	}
}

// TestFailedSyncTakesAllWithIt: a sync that ran into another one's failure
// fails too, for the kernel reports lost pages only once; so does an append.
func TestFailedSyncTakesAllWithIt(t *testing.T) {
	defer goleak.VerifyNone(t)
	for range 20 { // the second sync may arrive before or after the failure
		var running, most atomic.Int32
		g := newGate(vfs.OpSync)
		o := testOptions(vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
			if op.Kind == vfs.OpSync {
				most.Store(max(most.Load(), running.Add(1)))
				defer running.Add(-1)
			}
			return g.hook(op)
		}))
		l := mustCreate(t, o, 0)
		mustAppend(t, l, "a")
		first := g.start(func() error { _, err := l.Sync(); return err })
		second := make(chan error, 1)
		go func() { _, err := l.Sync(); second <- err }()
		for range 200 { // let it come as far as it can
			runtime.Gosched()
		}
		g.answer <- syscall.EIO
		for _, err := range []error{<-first, <-second} {
			if !errors.Is(err, ErrPoisoned) || !errors.Is(err, syscall.EIO) {
				t.Fatalf("%v", err)
			}
		}
		if s := l.Stats(); s.Synced != MinLSN || most.Load() != 1 {
			t.Fatalf("%+v, %d syncs at once", s, most.Load())
		}
	}
}

// TestFailureMeanwhile: an operation that itself went well promises nothing
// when another one poisoned the log while it ran.
func TestFailureMeanwhile(t *testing.T) {
	defer goleak.VerifyNone(t)
	appendB := func(l *Log) error { _, _, err := l.Append([]byte("b")); return err }
	syncIt := func(l *Log) error { _, err := l.Sync(); return err }
	tests := []struct {
		name         string
		held, fails  vfs.OpKind
		slow, failed func(*Log) error
	}{
		{"append fails during sync", vfs.OpSync, vfs.OpWrite, syncIt, appendB},
		{"sync fails during append", vfs.OpWrite, vfs.OpSync, appendB, syncIt},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate(tt.held)
			var failing atomic.Bool
			o := testOptions(vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
				if failing.Load() && op.Kind == tt.fails {
					return syscall.ENOSPC
				}
				return g.hook(op)
			}))
			l := mustCreate(t, o, 0)
			mustAppend(t, l, "a")
			before := l.Stats()
			done := g.start(func() error { return tt.slow(l) })
			failing.Store(true)
			if err := tt.failed(l); !errors.Is(err, syscall.ENOSPC) {
				t.Fatal(err)
			}
			g.answer <- nil
			err := <-done
			if s := l.Stats(); !errors.Is(err, syscall.ENOSPC) || s.End != before.End || s.Synced != before.Synced {
				t.Fatalf("%v, %+v", err, s)
			}
		})
	}
}

// TestConcurrentUse runs everything at once; with -race it is worth more.
func TestConcurrentUse(t *testing.T) {
	defer goleak.VerifyNone(t)
	fs := vfs.NewMem()
	o := testOptions(fs)
	o.SegmentBytes = 64 << 10
	l := mustCreate(t, o, 0)
	const appenders, each = 4, 300
	var wg sync.WaitGroup
	ends := make([][]LSN, appenders)
	var trimmed atomic.Uint64
	for a := range appenders {
		ends[a] = make([]LSN, each)
		wg.Go(func() {
			for i := range each {
				_, end, err := l.Append(fmt.Appendf(nil, "%d/%d", a, i), make([]byte, 200))
				if err != nil {
					t.Error(err)
					return
				}
				ends[a][i] = end
				if i%20 != a {
					continue
				}
				synced, err := l.Sync()
				if err != nil || synced < end {
					t.Errorf("synced to %d behind %d, %v", synced, end, err)
				}
				l.SetMark(synced)
				switch a {
				case 0:
					err = l.AppendMark()
				case 1:
					trimmed.Store(uint64(max(LSN(trimmed.Load()), synced/2)))
					err = l.Trim(synced / 2)
				case 2:
					err = l.RemoveOthers()
				}
				if s := l.Stats(); err != nil || s.Mark > s.Synced || s.Synced > s.End {
					t.Errorf("%+v, %v", s, err)
				}
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	found := map[string]LSN{}
	r, err := Recover(o, 0, func(r Record) error {
		if len(r.Data) < 200 {
			found[string(r.Data)] = r.End
		}
		return nil
	})
	if err != nil || r.Corrupt != nil || r.Torn != nil {
		t.Fatalf("%+v, %v", r, err)
	}
	for a := range appenders {
		for i, end := range ends[a] {
			if got := found[fmt.Sprintf("%d/%d", a, i)]; got != end && end > LSN(trimmed.Load()) {
				t.Fatalf("%d/%d: found end %d, want %d", a, i, got, end)
			}
		}
	}
}
