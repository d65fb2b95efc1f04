package core

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
)

// fakeStore is a backend that does what its test says.
type fakeStore struct {
	space     *fakeSpace
	closes    func(ctx context.Context) error
	registers func()
	ends      func()
}

func (*fakeStore) mode() string { return "fake" }
func (f *fakeStore) namespace(context.Context, engine.Layout, string, engine.NamespaceOptions) (space, error) {
	return f.space, nil
}
func (f *fakeStore) register([]byte, int) (func(), error) {
	if f.registers != nil {
		f.registers()
	}
	return func() {
		if f.ends != nil {
			f.ends()
		}
	}, nil
}
func (*fakeStore) stats(context.Context) (json.RawMessage, error) {
	return json.RawMessage("{}"), nil
}
func (*fakeStore) health(context.Context) Health         { return Health{State: 1, Name: "ok"} }
func (*fakeStore) events(uint64) ([]engine.Event, error) { return nil, nil }
func (f *fakeStore) close(ctx context.Context) error {
	if f.closes == nil {
		return nil
	}
	return f.closes(ctx)
}

// fakeSpace answers each call by do; the default is OK at once.
type fakeSpace struct {
	do   func(ctx context.Context, op Op) engine.Status
	lend func() lease

	mu      sync.Mutex
	running int
	most    int
	calls   [OpDrop + 1]int
}

func (f *fakeSpace) call(ctx context.Context, op Op) engine.Status {
	f.mu.Lock()
	f.running++
	f.most = max(f.most, f.running)
	f.calls[op]++
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		f.running--
		f.mu.Unlock()
	}()
	if f.do == nil {
		return engine.StatusOK
	}
	return f.do(ctx, op)
}

func (f *fakeSpace) Put(ctx context.Context, blocks []engine.PutBlock, _ engine.PutOptions) []engine.PutResult {
	st := f.call(ctx, OpPut)
	out := make([]engine.PutResult, len(blocks))
	for i := range out {
		out[i].Status = st
	}
	return out
}

func (f *fakeSpace) Get(ctx context.Context, blocks []engine.GetBlock, _ engine.GetOptions) []engine.GetResult {
	st := f.call(ctx, OpGet)
	out := make([]engine.GetResult, len(blocks))
	for i := range out {
		out[i].Status = st
	}
	return out
}

func (f *fakeSpace) each(ctx context.Context, op Op, n int) []engine.Status {
	st := f.call(ctx, op)
	out := make([]engine.Status, n)
	for i := range out {
		out[i] = st
	}
	return out
}

func (f *fakeSpace) Has(ctx context.Context, hashes [][]byte) []engine.Status {
	return f.each(ctx, OpExists, len(hashes))
}

func (f *fakeSpace) Touch(ctx context.Context, hashes [][]byte) []engine.Status {
	return f.each(ctx, OpTouch, len(hashes))
}

func (f *fakeSpace) Drop(ctx context.Context, hashes [][]byte) []engine.Result {
	out := make([]engine.Result, len(hashes))
	for i, st := range f.each(ctx, OpDrop, len(hashes)) {
		out[i].Status = st
	}
	return out
}

func (*fakeSpace) Info() engine.NamespaceInfo            { return engine.NamespaceInfo{Number: 1} }
func (*fakeSpace) Layout() engine.Layout                 { return layout.Opaque("fake") }
func (*fakeSpace) Differences() []layout.Difference      { return nil }
func (*fakeSpace) Warnings() []string                    { return nil }
func (*fakeSpace) onlyPlane() string                     { return "value" }
func (f *fakeSpace) bump(context.Context) (space, error) { return f, nil }
func (f *fakeSpace) match(context.Context, [][]byte) (lease, error) {
	if f.lend != nil {
		return f.lend(), nil
	}
	return &fakeLease{blocks: 1}, nil
}
func (*fakeSpace) lookupNow(hashes [][]byte) []engine.Status {
	return make([]engine.Status, len(hashes))
}

type fakeLease struct {
	blocks   int
	released int
	expired  bool
}

func (l *fakeLease) Blocks() int                { return l.blocks }
func (l *fakeLease) Release()                   { l.released++ }
func (l *fakeLease) renew(context.Context) bool { return !l.expired }

// fakeLib is a library with one store and one namespace of it.
type fakeLib struct {
	*Lib
	t     testing.TB
	store uint64
	ns    uint64
	sp    *fakeSpace
}

func newFake(t testing.TB, do func(context.Context, Op) engine.Status, change ...func(*options)) *fakeLib {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() {
		if err := goleak.Find(before); err != nil && !t.Failed() {
			t.Error(err)
		}
	})
	o := &options{queueOperations: 16, queueBytes: 1 << 30, workers: 4, callTimeout: 30 * time.Second}
	for _, fn := range change {
		fn(o)
	}
	f := &fakeLib{Lib: New(), t: t, sp: &fakeSpace{do: do}}
	var e *Error
	if f.store, e = f.adopt(&fakeStore{space: f.sp}, o); e != nil {
		t.Fatal(e)
	}
	f.ns = f.open()
	return f
}

func (f *fakeLib) open() uint64 {
	f.t.Helper()
	ns, _, e := f.OpenSpace(f.store, mustJSON(layout.Opaque("fake")), "", nil)
	if e != nil {
		f.t.Fatal(e)
	}
	return ns
}

func (f *fakeLib) submit(op Op, items int) uint64 {
	f.t.Helper()
	id, e := f.Submit(f.store, f.ns, &Job{Op: op, Items: itemsOf(items)})
	if e != nil {
		f.t.Fatalf("submit: %v", e)
	}
	return id
}

func (f *fakeLib) queue() *queue {
	s, e := f.Lib.store(f.store)
	if e != nil {
		f.t.Fatal(e)
	}
	return s.q
}

// all drains until n completions have come.
func (f *fakeLib) all(n int) []*Completion {
	f.t.Helper()
	var got []*Completion
	end := time.Now().Add(time.Minute)
	for len(got) < n {
		taken, _, e := f.Drain(f.store, n-len(got), 1<<20)
		if e != nil || time.Now().After(end) {
			f.t.Fatalf("%d of %d completions: %v", len(got), n, e)
		}
		if got = append(got, taken...); len(taken) == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	return got
}

func (f *fakeLib) close() {
	f.t.Helper()
	if e := f.Close(f.store, 0); e != nil {
		f.t.Errorf("close: %v", e)
	}
}

func itemsOf(n int) []Item {
	items := make([]Item, n)
	for i := range items {
		items[i].Hash = []byte{15: byte(i)}
	}
	return items
}

func spanOf(p []byte) Span { return Span{unsafe.Pointer(unsafe.SliceData(p)), uint64(len(p))} }

func contains(s, part string) bool { return strings.Contains(s, part) }
