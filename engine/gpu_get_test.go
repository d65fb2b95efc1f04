package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/internal/vfs"
	"pgregory.net/rapid"
)

// onGPU is a block of blockOf, or a part of it, wanted on a fake GPU.
type onGPU struct {
	id, size int
	block    DeviceGetBlock
	want     [][]byte // by span
	spans    []gpu.Span
}

// wholeOnGPU wants both planes of a block.
func wholeOnGPU(g *fakeGPU, id, size int) *onGPU {
	o := &onGPU{id: id, size: size, block: DeviceGetBlock{Hash: hashOf(id)}}
	cut := size / 3
	o.add(g, "k", 0, cut, false)
	o.add(g, "v", 0, size-cut, false)
	return o
}

// add wants n bytes from off on of a plane, in one span or in two.
func (o *onGPU) add(g *fakeGPU, plane string, off, n int, ranged bool) {
	p := contentOf(o.id, 0, o.size)
	if cut := o.size / 3; plane == "k" {
		p = p[:cut]
	} else {
		p = p[cut:]
	}
	part := DevicePart{Plane: plane}
	if ranged {
		part.OffsetBytes, part.LengthBytes = int64(off), int64(n)
	}
	pieces := []int{n}
	if n > 5 {
		pieces = []int{n / 5, n - n/5}
	}
	at := off
	for _, k := range pieces {
		s := g.alloc(int64(k))
		part.Spans, o.spans = append(part.Spans, s), append(o.spans, s)
		o.want, at = append(o.want, p[at:at+k]), at+k
	}
	o.block.Parts = append(o.block.Parts, part)
}

// check holds the destination to a status.
func (o *onGPU) check(t interface{ Fatalf(string, ...any) }, g *fakeGPU, r DeviceGetResult, want Status) {
	if r.Status != want || (r.Err == nil) != (want == StatusOK) {
		t.Fatalf("block %d: %v %v, want %v", o.id, r.Status, r.Err, want)
	}
	sum := int64(0)
	for i, s := range o.spans {
		sum += s.LengthBytes
		switch {
		case !g.around(s):
			t.Fatalf("block %d: a byte outside of span %d was written", o.id, i)
		case want == StatusOK && !bytes.Equal(g.bytes(s), o.want[i]):
			t.Fatalf("block %d span %d: WRONG BYTES with status OK", o.id, i)
		case want != StatusOK && !untouched(g.bytes(s)):
			t.Fatalf("block %d span %d: %v, and the destination was written", o.id, i, r.Status)
		}
	}
	if want == StatusOK && (r.Bytes != sum || r.VerifiedBytes == 0 || r.Path == PathNone) ||
		want != StatusOK && (r.Bytes != 0 || r.Path != PathNone || r.Seal != nil) {
		t.Fatalf("block %d: %+v", o.id, r)
	}
}

func blocksOf(all []*onGPU) (blocks []DeviceGetBlock) {
	for _, o := range all {
		blocks = append(blocks, o.block)
	}
	return blocks
}

// gpuRig is a store with blocks 0 to n-1 in a directory, and a fake GPU with a
// direct path from there.
type gpuRig struct {
	s     *Store
	n     *Namespace
	g     *fakeGPU
	route *fakeRoute
	sizes []int
}

func (r *gpuRig) size(id int) int { return r.sizes[id%len(r.sizes)] }

func newGPURig(t testing.TB, blocks int, sizes ...int) *gpuRig {
	t.Helper()
	checkLeaks(t)
	dir, o := realOptions(t)
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mustClose(t, s) })
	r := &gpuRig{s: s, n: mustSpace(t, s), g: newFakeGPU(t, 16<<20), sizes: sizes}
	if s.vol.DirectRefusal() == "" {
		r.route = r.g.prove(dir)
	}
	for id := range blocks {
		mustPut(t, r.n, blockOf(id, 0, r.size(id)))
	}
	mustFlush(t, s)
	return r
}

// needsRoute ends a test that means the direct path where there is no direct
// I/O.
func (r *gpuRig) needsRoute(t testing.TB) {
	t.Helper()
	if r.route == nil {
		t.Skip("the path is refused here: ", r.s.vol.DirectRefusal())
	}
}

func (r *gpuRig) get(ctx context.Context, all []*onGPU, o DeviceGetOptions) []DeviceGetResult {
	return r.n.getToDevice(ctx, r.g, blocksOf(all), o)
}

// wantTotals holds the counters of a path to what they must add up to.
func wantTotals(t testing.TB, st DevicePathStats) {
	t.Helper()
	if st.Attempted != st.Verified+st.Corrupt+st.Failed {
		t.Errorf("%d attempted, %d verified + %d corrupt + %d failed", st.Attempted, st.Verified, st.Corrupt, st.Failed)
	}
}

// TestDeviceGetBatches reads random batches by both paths: of any size, whole
// and in parts, with absent blocks among them.
func TestDeviceGetBatches(t *testing.T) {
	r := newGPURig(t, 32, 3, 4096, 12288, 12289, 100000, 3*65536, 300000, 700000)
	r.g.compares = true
	rapid.Check(t, func(rt *rapid.T) {
		r.g.reset()
		var all []*onGPU
		for range rapid.IntRange(1, 10).Draw(rt, "batch") {
			id := rapid.IntRange(0, 34).Draw(rt, "id")
			size := r.size(id)
			if rapid.Bool().Draw(rt, "whole") {
				all = append(all, wholeOnGPU(r.g, id, size))
				continue
			}
			o := &onGPU{id: id, size: size, block: DeviceGetBlock{Hash: hashOf(id)}}
			for range rapid.IntRange(1, 3).Draw(rt, "parts") {
				plane, n := "k", size/3
				if rapid.Bool().Draw(rt, "v") {
					plane, n = "v", size-size/3
				}
				from := rapid.IntRange(0, n-1).Draw(rt, "from")
				o.add(r.g, plane, from, rapid.IntRange(1, n-from).Draw(rt, "length"), true)
			}
			all = append(all, o)
		}
		opts := DeviceGetOptions{HostOnly: rapid.Bool().Draw(rt, "host"), WantSeal: true}
		for i, res := range r.get(context.Background(), all, opts) {
			want := StatusOK
			if all[i].id >= 32 {
				want = StatusMiss
			}
			all[i].check(rt, r.g, res, want)
			if want == StatusOK && (res.Seal == nil || res.FellBack) {
				rt.Fatalf("%+v", res)
			}
			if opts.HostOnly && res.Path == PathCuFile {
				rt.Fatalf("HostOnly, and the block came by %s", res.Path)
			}
		}
	})
	st := r.s.Stats()
	wantTotals(t, st.HostBounce)
	wantTotals(t, st.CuFile)
	if st.HostBounce.Verified == 0 || r.route != nil && st.CuFile.Verified == 0 || r.g.checked == 0 {
		t.Errorf("host bounce %+v, direct %+v, %d checks", st.HostBounce, st.CuFile, r.g.checked)
	}
	if st.ServedBytes != st.HostBounce.VerifiedBytes+st.CuFile.VerifiedBytes || st.CuFile.FellBack != 0 {
		t.Errorf("%d bytes served, %+v, %+v", st.ServedBytes, st.HostBounce, st.CuFile)
	}
	wantNoBuffers(t, r.s)
}

// TestDeviceGetStraight: blocks of whole pages are read into pinned memory
// without a copy.
func TestDeviceGetStraight(t *testing.T) {
	r := newGPURig(t, 4, 3*128<<10)
	all := []*onGPU{wholeOnGPU(r.g, 0, r.size(0)), wholeOnGPU(r.g, 3, r.size(0))}
	for i, res := range r.get(context.Background(), all, DeviceGetOptions{HostOnly: true}) {
		all[i].check(t, r.g, res, StatusOK)
	}
	if st := r.s.Stats(); st.StraightBytes != 2*int64(r.size(0)) {
		t.Errorf("%d bytes were read straight", st.StraightBytes)
	}
}

// TestDeviceGetRefused: each bad request has its status, a reason, and leaves
// its destination and its neighbour in the batch alone.
func TestDeviceGetRefused(t *testing.T) {
	r := newGPURig(t, 3, 100000)
	g, size := r.g, r.size(0)
	change := func(fn func(o *onGPU)) *onGPU {
		o := wholeOnGPU(g, 1, size)
		fn(o)
		return o
	}
	for _, c := range []struct {
		name string
		o    *onGPU
		want Status
		says string
	}{
		{"hash too short", change(func(o *onGPU) { o.block.Hash = make([]byte, 3) }), StatusInvalid, "16 to 64"},
		{"no parts", change(func(o *onGPU) { o.block.Parts = nil }), StatusInvalid, "no parts"},
		{"no such plane", change(func(o *onGPU) { o.block.Parts[0].Plane = "q" }), StatusInvalid, `"q"`},
		{"negative offset", change(func(o *onGPU) { o.block.Parts[0].OffsetBytes = -1 }), StatusInvalid, "negative"},
		{"negative span", change(func(o *onGPU) { o.block.Parts[0].Spans[0].LengthBytes = -1 }), StatusInvalid, "span of -1"},
		{"a span beyond all blocks", change(func(o *onGPU) { o.block.Parts[0].Spans[0].LengthBytes = MaxBlockBytes + 1 }), StatusInvalid, "span of"},
		{"a span at 0", change(func(o *onGPU) { o.block.Parts[0].Spans[0].Ptr = 0 }), StatusInvalid, "0x0"},
		{"a span that wraps", change(func(o *onGPU) { o.block.Parts[0].Spans[0].Ptr = ^gpu.Span{}.Ptr }), StatusInvalid, "span of"},
		{"spans too short", change(func(o *onGPU) { o.block.Parts[0].Spans = o.block.Parts[0].Spans[:1] }), StatusLengthMismatch, "spans hold"},
		{"spans too long", change(func(o *onGPU) { o.block.Parts[1].Spans = append(o.block.Parts[1].Spans, g.alloc(1)) }), StatusLengthMismatch, "spans hold"},
		{"longer than the block", change(func(o *onGPU) { o.block.Parts[1].Spans = append(o.block.Parts[1].Spans, g.alloc(100000)) }), StatusLengthMismatch, "the whole block"},
		{"range and spans differ", change(func(o *onGPU) { o.block.Parts[0].LengthBytes = 5 }), StatusLengthMismatch, "the range has"},
		{"range beyond the plane", change(func(o *onGPU) { o.block.Parts[0].OffsetBytes = 1 }), StatusLengthMismatch, "asked for"},
		{"one place twice", change(func(o *onGPU) { o.block.Parts[1].Spans[0].Ptr = o.block.Parts[0].Spans[0].Ptr }), StatusInvalid, "overlap"},
	} {
		for _, hostOnly := range []bool{true, false} {
			t.Run(fmt.Sprint(c.name, " ", hostOnly), func(t *testing.T) {
				good := wholeOnGPU(g, 0, size)
				res := r.get(context.Background(), []*onGPU{good, c.o}, DeviceGetOptions{HostOnly: hostOnly})
				good.check(t, g, res[0], StatusOK)
				c.o.check(t, g, res[1], c.want)
				var be *BlockError
				if !errors.As(res[1].Err, &be) || be.Status != c.want || !strings.Contains(res[1].Err.Error(), c.says) {
					t.Errorf("%v", res[1].Err)
				}
			})
		}
	}
	// Of two blocks that want one place the later one is refused.
	first, second := wholeOnGPU(g, 0, size), wholeOnGPU(g, 1, size)
	second.block.Parts[0].Spans[1].Ptr = first.block.Parts[1].Spans[1].Ptr + 7
	res := r.get(context.Background(), []*onGPU{first, second}, DeviceGetOptions{})
	first.check(t, g, res[0], StatusOK)
	if res[1].Status != StatusInvalid || !strings.Contains(res[1].Err.Error(), "blocks 0 and 1") {
		t.Errorf("%v", res[1].Err)
	}
	o := wholeOnGPU(g, 0, size)
	none := r.n.GetToDevice(context.Background(), nil, []DeviceGetBlock{o.block}, DeviceGetOptions{})[0]
	if o.check(t, g, none, StatusInvalid); !strings.Contains(none.Err.Error(), "no device") {
		t.Error(none.Err)
	}
	wantNoBuffers(t, r.s)
}

// TestDeviceGetStates: a store that answers misses, an old handle and a closed
// store answer as they do to Get.
func TestDeviceGetStates(t *testing.T) {
	r := newGPURig(t, 1, 5000)
	get := func(want Status) {
		t.Helper()
		o := wholeOnGPU(r.g, 0, 5000)
		o.check(t, r.g, r.get(context.Background(), []*onGPU{o}, DeviceGetOptions{})[0], want)
	}
	get(StatusOK)
	r.s.health.set("test", HealthAllMiss, "as a test wants it")
	get(StatusMiss)
	r.s.health.clear("test")
	if _, err := r.n.BumpEpoch(context.Background()); err != nil {
		t.Fatal(err)
	}
	get(StatusStaleEpoch)
	mustClose(t, r.s)
	get(StatusClosed)
	if st := r.s.count.getStatus[StatusOK].Load(); st != 1 {
		t.Errorf("%d gets were OK", st)
	}
}

// TestDeviceGetMarks: what a GPU got is used, and is moved on by an eviction.
func TestDeviceGetMarks(t *testing.T) {
	r := newGPURig(t, 2, 100000)
	for id, hostOnly := range []bool{true, false} {
		found, err := r.s.lookup(context.Background(), []index.Key{{Namespace: r.n.info.Number, Hash: string(hashOf(id))}}, false)
		if err != nil || r.s.used.isMarked(found[0].entry.Address) {
			t.Fatal("marked before it was used, or ", err)
		}
		o := wholeOnGPU(r.g, id, 100000)
		o.check(t, r.g, r.get(context.Background(), []*onGPU{o}, DeviceGetOptions{HostOnly: hostOnly})[0], StatusOK)
		if !r.s.used.isMarked(found[0].entry.Address) {
			t.Errorf("host only %v: not marked", hostOnly)
		}
	}
}

// TestDeviceGetCompressed: compressed blocks come through the host, and that
// is no fall back.
func TestDeviceGetCompressed(t *testing.T) {
	squeezed(t, CompressionZstd)
	r := newGPURig(t, 4, 300000)
	for id := range 4 {
		o := wholeOnGPU(r.g, id, 300000)
		res := r.get(context.Background(), []*onGPU{o}, DeviceGetOptions{})[0]
		if o.check(t, r.g, res, StatusOK); res.Path != PathHostBounce || res.FellBack {
			t.Errorf("%+v", res)
		}
	}
	if st := r.s.Stats(); st.CuFile.Attempted != 0 || st.HostBounce.Verified != 4 {
		t.Errorf("%+v %+v", st.CuFile, st.HostBounce)
	}
}

// TestDeviceGetForgets: a direct path keeps no file of a segment that was
// evicted, nor any when the store is closed.
func TestDeviceGetForgets(t *testing.T) {
	r := newGPURig(t, 60, 100000)
	r.needsRoute(t)
	read := func() {
		for id := range 60 {
			o := wholeOnGPU(r.g, id, 100000)
			r.g.reset()
			r.get(context.Background(), []*onGPU{o}, DeviceGetOptions{})
		}
	}
	read()
	kept := len(r.route.files)
	if kept < 2 || r.route.forgotten != 0 {
		t.Fatalf("%d files are kept, %d forgotten", kept, r.route.forgotten)
	}
	mustEvict(t, r.s)
	if r.route.forgotten != 1 || len(r.route.files) != kept-1 {
		t.Errorf("after an eviction %d files are kept of %d, %d forgotten", len(r.route.files), kept, r.route.forgotten)
	}
	mustClose(t, r.s)
	if len(r.route.files) != 0 {
		t.Errorf("after the end of the store %d files are kept", len(r.route.files))
	}
}

// TestDeviceFilesOfGone: a file that was noted after its segment went away is
// forgotten at once.
func TestDeviceFilesOfGone(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	g := newFakeGPU(t, 1)
	route, id := g.prove("d"), gpu.FileID{Dev: 1, Ino: 2}
	route.files[id] = true
	s.deviceFiles.note(s, 1<<40, route, id)
	if len(route.files) != 0 || len(s.deviceFiles.kept) != 0 {
		t.Errorf("%d files are kept", len(route.files))
	}
}
