package core

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/tools/internal/wire"
)

// realLib is a library with an embedded store in a directory of the test.
type realLib struct {
	*fakeLib
	dir string
}

func optionsFor(dir string) []byte {
	return mustJSON(map[string]any{
		"dir": dir, "capacity_bytes": 128 << 20, "free_floor_bytes": 1, "max_block_bytes": 1 << 20, "path": "buffered",
		"max_inflight_bytes": 16 << 20, "index_cache_bytes": 1 << 20,
	})
}

func realLayout() engine.Layout {
	l := layout.Opaque("test")
	l.Planes = []layout.Plane{{Name: "k"}, {Name: "v"}}
	return l
}

func openReal(t testing.TB) *realLib {
	t.Helper()
	r := &realLib{&fakeLib{Lib: New(), t: t}, t.TempDir()}
	var e *Error
	if r.store, e = r.Open(optionsFor(r.dir)); e != nil {
		t.Fatal(e)
	}
	if r.ns, _, e = r.OpenSpace(r.store, mustJSON(realLayout()), "tenant", nil); e != nil {
		t.Fatal(e)
	}
	t.Cleanup(func() { _ = r.Close(r.store, 0) })
	return r
}

func realHash(id int) []byte {
	h := sha256.Sum256(fmt.Append(nil, "block ", id))
	return h[:]
}

func realBytes(id, size int) []byte {
	return bytes.Repeat(realHash(id), size/32+1)[:size]
}

// block is an item of two planes, the second of two spans.
func block(id int, k, v []byte) Item {
	cut := len(v) / 3
	return Item{Hash: realHash(id), Parts: []Part{
		{Plane: "k", Spans: []Span{spanOf(k)}}, {Plane: "v", Spans: []Span{spanOf(v[:cut]), spanOf(v[cut:])}},
	}}
}

func (r *realLib) do(j *Job) *Completion {
	r.t.Helper()
	if _, e := r.Submit(r.store, r.ns, j); e != nil {
		r.t.Fatal(e)
	}
	return r.all(1)[0]
}

const kBytes, vBytes = 5000, 100_000

func (r *realLib) put(ids ...int) *Completion {
	r.t.Helper()
	j := &Job{Op: OpPut}
	for _, id := range ids {
		j.Items = append(j.Items, block(id, realBytes(id, kBytes), realBytes(id+1000, vBytes)))
	}
	return r.do(j)
}

// get reads blocks into poisoned memory and holds each to its status: the bytes
// if OK, the poison if not.
func (r *realLib) get(want map[int]Status, ids ...int) *Completion {
	r.t.Helper()
	j := &Job{Op: OpGet}
	var ks, vs [][]byte
	for _, id := range ids {
		k, v := bytes.Repeat([]byte{0xa5}, kBytes), bytes.Repeat([]byte{0xa5}, vBytes)
		ks, vs = append(ks, k), append(vs, v)
		j.Items = append(j.Items, block(id, k, v))
	}
	c := r.do(j)
	for i, id := range ids {
		st, ok := want[id]
		if !ok {
			st = OK
		}
		k, v := realBytes(id, kBytes), realBytes(id+1000, vBytes)
		if st != OK {
			k, v = bytes.Repeat([]byte{0xa5}, kBytes), bytes.Repeat([]byte{0xa5}, vBytes)
		}
		if c.Results[i].Status != st || !bytes.Equal(ks[i], k) || !bytes.Equal(vs[i], v) {
			r.t.Errorf("block %d: %+v, want status %d; bytes as wanted: %v %v", id, c.Results[i], st, bytes.Equal(ks[i], k), bytes.Equal(vs[i], v))
		}
	}
	return c
}

func (r *realLib) each(op Op, ids ...int) []Status {
	r.t.Helper()
	j := &Job{Op: op}
	for _, id := range ids {
		j.Items = append(j.Items, Item{Hash: realHash(id)})
	}
	var out []Status
	for _, res := range r.do(j).Results {
		out = append(out, res.Status)
	}
	return out
}

// TestEmbeddedOperations goes through all operations on a real store.
func TestEmbeddedOperations(t *testing.T) {
	r := openReal(t)
	if c := r.put(0, 1, 2); c.Status != OK || c.OKs != 3 || c.Results[0].Bytes == 0 {
		t.Fatalf("%+v", c)
	}
	if c := r.put(1, 3); c.Results[0].Flags&FlagExisted == 0 || c.Results[1].Flags&FlagExisted != 0 {
		t.Errorf("%+v", c)
	}
	if c := r.get(map[int]Status{9: Miss}, 2, 9, 0, 3); c.Status != Miss || c.OKs != 3 || c.Results[0].Bytes != kBytes+vBytes || c.Results[0].VerifiedBytes < kBytes+vBytes {
		t.Errorf("%+v", c)
	}
	if got := fmt.Sprint(r.each(OpExists, 0, 9), r.each(OpTouch, 9, 1), r.each(OpDrop, 0, 9), r.each(OpExists, 0, 1)); got != "[1 2] [2 1] [1 2] [2 1]" {
		t.Error(got)
	}
	var flat []byte
	for _, id := range []int{1, 2, 3, 0} {
		flat = append(flat, realHash(id)...)
	}
	out := make([]byte, 4)
	if e := r.LookupNow(r.ns, flat, 32, out); e != nil || !bytes.Equal(out[:3], []byte{1, 1, 1}) || out[3] == 1 {
		t.Errorf("%v %v", out, e)
	}
	blocks, lease, e := r.Match(r.ns, flat, 32, 0)
	if e != nil || blocks != 3 || lease == 0 {
		t.Errorf("%d blocks, lease %d, %v", blocks, lease, e)
	}
	if e := r.Renew(lease); e != nil {
		t.Error(e)
	}
	if e := r.Release(lease); e != nil {
		t.Error(e)
	}
	if e := r.Release(lease); e == nil || e.Status != BadHandle {
		t.Errorf("released twice: %v", e)
	}
}

// TestEmbeddedRangesAndSeals: parts of planes, and seals in both directions.
func TestEmbeddedRangesAndSeals(t *testing.T) {
	r := openReal(t)
	k, v := realBytes(0, kBytes), realBytes(1000, vBytes)
	seal := engine.SealOf(k, v)
	it := block(0, k, v)
	it.Seal = wire.AppendSeal(nil, &seal)
	wrong := block(1, k, realBytes(7, vBytes))
	wrong.Seal = it.Seal
	noSeal := block(2, k, v)
	noSeal.Seal = []byte("no seal")
	c := r.do(&Job{Op: OpPut, Durable: true, Items: []Item{it, wrong, noSeal}})
	if c.Results[0].Status != OK || c.Results[0].Flags&FlagDurable == 0 || c.Results[1].Status != Status(engine.StatusCorrupt) || c.Results[2].Status != Invalid {
		t.Fatalf("%+v", c.Results)
	}
	if why, e := r.Reason(r.store, c.ID, 2); e != nil || !contains(why, "seal") {
		t.Errorf("%q %v", why, e)
	}
	dst, out, small := make([]byte, 777), make([]byte, 4096), make([]byte, 3)
	part := []Part{{Plane: "v", OffsetBytes: 66_000, LengthBytes: 777, Spans: []Span{spanOf(dst[:7]), spanOf(dst[7:])}}}
	c = r.do(&Job{Op: OpGet, Items: []Item{
		{Hash: realHash(0), Parts: part, SealOut: spanOf(out)},
		{Hash: realHash(0), Parts: []Part{{Plane: "k", Spans: []Span{spanOf(make([]byte, kBytes))}}}, SealOut: spanOf(small)},
		{Hash: realHash(0), Parts: []Part{{Plane: "v", OffsetBytes: 1, Spans: []Span{spanOf(make([]byte, 9))}}}},
	}})
	if c.Results[0].Status != OK || !bytes.Equal(dst, v[66_000:66_777]) || !bytes.Equal(out[:c.Results[0].SealBytes], it.Seal) {
		t.Errorf("%+v", c.Results[0])
	}
	if c.Results[1].SealBytes != uint32(len(it.Seal)) || !bytes.Equal(small, make([]byte, 3)) {
		t.Errorf("no room for the seal: %+v, %x", c.Results[1], small)
	}
	if c.Results[2].Status == OK {
		t.Errorf("9 bytes for the rest of a plane: %+v", c.Results[2])
	}
}

// TestFlippedByteThroughTheABI: a byte of the disk is changed; that block, and
// no other, is Corrupt, with a reason that names the file.
func TestFlippedByteThroughTheABI(t *testing.T) {
	r := openReal(t)
	r.put(0, 1, 2, 3)
	if e := r.Close(r.store, 0); e != nil {
		t.Fatal(e)
	}
	flipInSegments(t, r.dir, realBytes(1001, 64))
	var e *Error
	if r.store, e = r.Open(optionsFor(r.dir)); e != nil {
		t.Fatal(e)
	}
	if r.ns, _, e = r.OpenSpace(r.store, mustJSON(realLayout()), "tenant", nil); e != nil {
		t.Fatal(e)
	}
	c := r.get(map[int]Status{1: Status(engine.StatusCorrupt)}, 0, 1, 2, 3)
	if why, e := r.Reason(r.store, c.ID, 1); e != nil || !contains(why, ".seg") {
		t.Errorf("reason %q, %v", why, e)
	}
	if _, e := r.Reason(r.store, c.ID, 0); e == nil || e.Status != Miss {
		t.Errorf("a reason for what is OK: %v", e)
	}
}

func flipInSegments(t testing.TB, dir string, what []byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "segments", "*", "*.seg"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		p, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if i := bytes.Index(p, what); i >= 0 {
			p[i+5] ^= 0x10
			if err := os.WriteFile(name, p, 0o600); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("no segment has the bytes, of %d", len(names))
}

// TestSpaces: detail, differences, RequireMatch and epochs.
func TestSpaces(t *testing.T) {
	r := openReal(t)
	r.put(0)
	other := realLayout()
	other.DType = "fp8"
	_, d, e := r.OpenSpace(r.store, mustJSON(other), "tenant", []byte(`{"require_match":true}`))
	if e == nil || e.Status != Status(engine.StatusLayoutMismatch) || !contains(string(d), `"field":"dtype","stored":"\"bytes\"","asked":"\"fp8\""`) {
		t.Errorf("%v %s", e, d)
	}
	h, d, e := r.OpenSpace(r.store, mustJSON(other), "tenant", nil)
	if e != nil || !contains(string(d), `"asked":"\"fp8\""`) || !contains(string(d), `"planes":[{"name":"k","size_bytes":0}`) {
		t.Errorf("%v %s", e, d)
	}
	if again, e := r.SpaceInfo(h); e != nil || !bytes.Equal(again, d) {
		t.Errorf("%s %v", again, e)
	}
	if e := r.CloseSpace(h); e != nil {
		t.Error(e)
	}
	for _, call := range []func() *Error{
		func() *Error { return r.CloseSpace(h) },
		func() *Error { _, e := r.SpaceInfo(h); return e },
		func() *Error { _, e := r.BumpEpoch(h, 0); return e },
		func() *Error { _, e := r.Submit(r.store, h, &Job{Op: OpExists}); return e },
		func() *Error { return r.LookupNow(h, nil, 32, nil) },
		func() *Error { _, _, e := r.Match(h, nil, 32, 0); return e },
	} {
		if e := call(); e == nil || e.Status != BadHandle {
			t.Errorf("closed namespace: %v", e)
		}
	}
	old := r.ns
	if r.ns, e = r.BumpEpoch(old, 0); e != nil {
		t.Fatal(e)
	}
	r.get(map[int]Status{0: Miss}, 0)
	bumped := r.ns
	r.ns = old
	r.get(map[int]Status{0: StaleEpoch}, 0)
	r.ns = bumped
	for in, want := range map[string]string{`{`: "ends", `{"model":"x"}`: "weights_digest", `{"nope":1}`: "nope"} {
		if _, d, e := r.OpenSpace(r.store, []byte(in), "", nil); e == nil || e.Status != Invalid || !contains(string(d), want) || !json.Valid(d) {
			t.Errorf("%s: %v %s", in, e, d)
		}
	}
}

// TestRegions: memory that is known is read into; a region is its store's.
func TestRegions(t *testing.T) {
	r := openReal(t)
	r.put(0)
	memory := make([]byte, 1<<20) // the engine knows it by its address alone
	h, e := r.Register(r.store, spanOf(memory), -1)
	if e != nil {
		t.Fatal(e)
	}
	if _, e := r.Register(r.store, spanOf(memory[4096:]), -1); e == nil || e.Status != Invalid {
		t.Errorf("registered twice: %v", e)
	}
	c := r.do(&Job{Op: OpGet, Wait: true, Items: []Item{block(0, memory[:kBytes], memory[8192:8192+vBytes])}})
	if c.Status != OK || !bytes.Equal(memory[:kBytes], realBytes(0, kBytes)) || !bytes.Equal(memory[8192:8192+vBytes], realBytes(1000, vBytes)) {
		t.Errorf("%+v", c)
	}
	if e := r.Unregister(r.store+1, h); e == nil || e.Status != BadHandle {
		t.Errorf("another store: %v", e)
	}
	if e := r.Unregister(r.store, h); e != nil {
		t.Error(e)
	}
	if e := r.Unregister(r.store, h); e == nil || e.Status != BadHandle {
		t.Errorf("twice: %v", e)
	}
}

// TestHandles: none is given twice, those of one kind mean nothing to another,
// and made-up ones hit nothing.
func TestHandles(t *testing.T) {
	seen := map[uint64]bool{}
	for range 100_000 {
		h := newHandle()
		if h == 0 || seen[h] {
			t.Fatalf("handle %d again", h)
		}
		seen[h] = true
	}
	r := openReal(t)
	for _, h := range []uint64{0, 1, math.MaxUint64, r.ns, r.store + 1} {
		if _, _, e := r.Drain(h, 1, 1); e == nil || e.Status != BadHandle {
			t.Errorf("store %d: %v", h, e)
		}
	}
	if e := r.LookupNow(r.store, nil, 32, nil); e == nil || e.Status != BadHandle {
		t.Errorf("a store for a namespace: %v", e)
	}
	small := newTable[int](2)
	a, _ := small.add(1)
	small.add(2)
	if _, ok := small.add(3); ok {
		t.Error("a full table takes more")
	}
	small.take(a)
	if _, ok := small.add(3); !ok || small.count() != 2 {
		t.Error("what was taken makes no room")
	}
}

// TestCloseEndsHandles: everything that came from the store is gone with it,
// and the directory is free.
func TestCloseEndsHandles(t *testing.T) {
	r := openReal(t)
	r.put(0)
	_, lease, e := r.Match(r.ns, realHash(0), 32, 0)
	if e != nil {
		t.Fatal(e)
	}
	region, e := r.Register(r.store, spanOf(make([]byte, 4096)), -1)
	if e != nil {
		t.Fatal(e)
	}
	if _, e := r.Open(optionsFor(r.dir)); e == nil || e.Status != Locked {
		t.Errorf("opened twice: %v", e)
	}
	if e := r.Close(r.store, 0); e != nil {
		t.Fatal(e)
	}
	for name, e := range map[string]*Error{
		"close": r.Close(r.store, 0), "release": r.Release(lease), "unregister": r.Unregister(r.store, region),
		"close namespace": r.CloseSpace(r.ns), "idle": r.WaitIdle(r.store, 0),
	} {
		if e == nil || e.Status != BadHandle {
			t.Errorf("%s after close: %v", name, e)
		}
	}
	if r.store, e = r.Open(optionsFor(r.dir)); e != nil {
		t.Error(e)
	}
}

// TestCloseRunsOutOfTime: operations under way keep the store, which refuses
// new ones; its completions can be drained, and a later close ends it.
func TestCloseRunsOutOfTime(t *testing.T) {
	hold := newStall()
	f := newFake(t, hold.do)
	f.submit(OpGet, 1)
	if e := f.Close(f.store, time.Millisecond); e == nil || e.Status != Closing {
		t.Errorf("%v", e)
	}
	if _, e := f.Submit(f.store, f.ns, &Job{Op: OpGet}); e == nil || e.Status != Closed {
		t.Errorf("submit while closing: %v", e)
	}
	if e := f.WaitIdle(f.store, time.Millisecond); e == nil || e.Status != Timeout {
		t.Errorf("idle: %v", e)
	}
	hold.open()
	f.all(1)
	f.close()
}

// TestCloseKeepsWhatHangs: a backend that is still closing is closed again.
func TestCloseKeepsWhatHangs(t *testing.T) {
	f := newFake(t, nil)
	calls := 0
	s, _ := f.Lib.store(f.store)
	s.b.(*fakeStore).closes = func(context.Context) error {
		if calls++; calls == 1 {
			return fmt.Errorf("test: %w", engine.ErrClosing)
		}
		return nil
	}
	if e := f.Close(f.store, 0); e == nil || e.Status != Closing {
		t.Errorf("%v", e)
	}
	f.close()
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}

// TestForgottenLeases: leases that nobody gave back do not use up the handles.
func TestForgottenLeases(t *testing.T) {
	f := newFake(t, nil)
	f.leases = newTable[*leased](1)
	_, first, _ := f.Match(f.ns, make([]byte, 32), 32, 0)
	blocks, none, e := f.Match(f.ns, make([]byte, 32), 32, 0)
	if e != nil || blocks != 1 || none != 0 || first == 0 {
		t.Errorf("%d blocks, lease %d, %v", blocks, none, e)
	}
	old, _ := f.leases.get(first)
	old.since.Store(time.Now().Add(-2 * leaseForgotten).UnixNano())
	if _, h, _ := f.Match(f.ns, make([]byte, 32), 32, 0); h == 0 || old.lease.(*fakeLease).released != 1 {
		t.Errorf("lease %d, the old one released %d times", h, old.lease.(*fakeLease).released)
	}
	f.close()
}

// TestReports: stats, health and events are JSON.
func TestReports(t *testing.T) {
	r := openReal(t)
	r.put(0)
	p, e := r.Stats(r.store)
	var st struct {
		Mode    string
		Library struct{ Submitted, Namespaces int }
		Store   map[string]any
	}
	if err := json.Unmarshal(p, &st); e != nil || err != nil || st.Mode != "embedded" || st.Library.Submitted != 1 || st.Library.Namespaces != 1 || len(st.Store) < 10 {
		t.Errorf("%s %v %v", p, e, err)
	}
	state, p, e := r.Health(r.store)
	if e != nil || state != 1 || string(p) != `{"state":"ok","reasons":[]}` {
		t.Errorf("%d %s %v", state, p, e)
	}
	p, e = r.Events(r.store, 0)
	var events []event
	if err := json.Unmarshal(p, &events); e != nil || err != nil || len(events) == 0 || events[0].Kind == "" {
		t.Errorf("%s %v", p, e)
	}
	if p, _ := r.Events(r.store, math.MaxUint64); string(p) != "[]" {
		t.Errorf("%s", p)
	}
}

// TestOpenRefusals: the engine's errors have statuses of their own.
func TestOpenRefusals(t *testing.T) {
	dir := t.TempDir()
	for in, want := range map[string]Status{
		string(mustJSON(map[string]any{"dir": dir, "must_exist": true})):         NoStore,
		string(mustJSON(map[string]any{"dir": dir + "/no", "must_exist": true})): NoStore,
		string(mustJSON(map[string]any{"dir": dir, "capacity_bytes": 1})):        Capacity,
		string(mustJSON(map[string]any{"dir": dir, "path": "telepathy"})):        Invalid,
		string(mustJSON(map[string]any{"dir": dir, "max_block_bytes": 1 << 40})): Invalid,
		`{"no":1}`: Invalid,
	} {
		if h, e := New().Open([]byte(in)); e == nil || e.Status != want || h != 0 || e.Text == "" {
			t.Errorf("%s: %v, want %d", in, e, want)
		}
	}
}

// silentBell is not to be rung.
type silentBell struct{ t *testing.T }

func (b silentBell) ring()  { b.t.Error("rung") }
func (b silentBell) quiet() { b.t.Error("quieted") }

// TestDrainBesideClose: a drain that found the store just before it was closed
// takes nothing and leaves the descriptor alone, whose number may be another
// file's by then.
func TestDrainBesideClose(t *testing.T) {
	f := newFake(t, nil)
	f.submit(OpExists, 1)
	q := f.queue()
	f.close()
	q.bell = silentBell{t}
	if taken, needed := q.drain(1, 1); len(taken) != 0 || needed != 0 {
		t.Errorf("%d taken, needed %d", len(taken), needed)
	}
}

// TestCloseBesideCalls: what comes from a store that was closed meanwhile gets
// no handle, and is let go of.
func TestCloseBesideCalls(t *testing.T) {
	f := newFake(t, nil)
	s, _ := f.Lib.store(f.store)
	n, _ := f.spaces.get(f.ns)
	f.close()
	if h, _, e := f.addSpace(s, f.sp); h != 0 || e == nil || e.Status != Closed {
		t.Errorf("namespace %d: %v", h, e)
	}
	f.stores.m[s.handle] = s // the call begins before close, and ends after it
	f.spaces.m[f.ns] = n
	lent := &fakeLease{blocks: 1}
	f.sp.lend = func() lease { delete(f.stores.m, s.handle); return lent }
	if blocks, h, e := f.Match(f.ns, make([]byte, 32), 32, 0); blocks != 0 || h != 0 || e == nil || e.Status != Closed || lent.released != 1 {
		t.Errorf("%d blocks, lease %d, released %d times: %v", blocks, h, lent.released, e)
	}
	ended := 0
	f.stores.m[s.handle] = s
	s.b.(*fakeStore).ends = func() { ended++ }
	s.b.(*fakeStore).registers = func() { delete(f.stores.m, s.handle) }
	if h, e := f.Register(s.handle, spanOf(make([]byte, 1)), -1); h != 0 || e == nil || e.Status != Closed || ended != 1 {
		t.Errorf("region %d, ended %d times: %v", h, ended, e)
	}
	delete(f.spaces.m, f.ns)
	if n := f.spaces.count() + f.leases.count() + f.regions.count(); n != 0 {
		t.Errorf("%d handles are left", n)
	}
}
