package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// blockOnGPU is a block of blockOf in the memory of a fake GPU.
func blockOnGPU(g *fakeGPU, id, variant, size int) DevicePutBlock {
	p := contentOf(id, variant, size)
	cut := size / 3
	span := func(p []byte) gpu.Span {
		s := g.alloc(int64(len(p)))
		copy(g.bytes(s), p)
		return s
	}
	return DevicePutBlock{Hash: hashOf(id), Planes: []DevicePlane{
		{Name: "v", Spans: []gpu.Span{span(p[cut : cut+1]), span(p[cut+1:])}},
		{Name: "k", Spans: []gpu.Span{span(p[:cut])}},
	}}
}

func (r *gpuRig) put(ctx context.Context, blocks ...DevicePutBlock) []PutResult {
	return r.n.putFromDevice(ctx, r.g, blocks, PutOptions{})
}

// TestDevicePut: what is stored from a GPU is what was there, by several trays
// too; of two blocks with one key the first one wins, and a stored one exists.
func TestDevicePut(t *testing.T) {
	for _, onDevice := range []bool{false, true} {
		t.Run(fmt.Sprint("sums on the GPU ", onDevice), func(t *testing.T) {
			r := newGPURig(t, 0)
			r.g.onDevice = onDevice
			sizes := []int{3, 4096, 100000, 700000, 900000, 900000, 900000, 900000, 900000}
			var blocks []DevicePutBlock
			total := int64(0)
			for id, size := range sizes {
				b := blockOnGPU(r.g, id, 0, size)
				if id > 0 {
					b.Parent = hashOf(id - 1)
				}
				blocks, total = append(blocks, b), total+int64(size)
			}
			blocks = append(blocks, blockOnGPU(r.g, 3, 1, 700000))
			for i, res := range r.put(context.Background(), blocks...) {
				if twin := i == len(sizes); res.Status != StatusOK || res.Existed != twin || res.Differs != twin {
					t.Errorf("block %d: %+v", i, res)
				}
			}
			for id, size := range sizes {
				wantBlock(t, r.n, id, 0, size)
			}
			st := r.s.Stats().DevicePut
			want := DevicePutStats{Copied: int64(len(blocks)), CopiedBytes: total + 700000}
			if onDevice {
				want.Sealed = want.Copied
			}
			if st != want || r.s.Stats().Unreachable != 0 {
				t.Errorf("%+v, want %+v", st, want)
			}
			wantNoBuffers(t, r.s)
		})
	}
}

// TestDevicePutRefused: bad blocks have the status of Put, before a byte of
// them is copied, and a good one beside them is stored.
func TestDevicePutRefused(t *testing.T) {
	r := newGPURig(t, 0)
	change := func(fn func(b *DevicePutBlock)) DevicePutBlock {
		b := blockOnGPU(r.g, 1, 0, 5000)
		fn(&b)
		return b
	}
	for i, c := range []struct {
		name string
		b    DevicePutBlock
		want Status
		says string
	}{
		{"hash too short", change(func(b *DevicePutBlock) { b.Hash = b.Hash[:3] }), StatusInvalid, "16 to 64"},
		{"parent too short", change(func(b *DevicePutBlock) { b.Parent = b.Hash[:3] }), StatusInvalid, "16 to 64"},
		{"a plane missing", change(func(b *DevicePutBlock) { b.Planes = b.Planes[:1] }), StatusLayoutMismatch, "planes"},
		{"a plane twice", change(func(b *DevicePutBlock) { b.Planes[1] = b.Planes[0] }), StatusLayoutMismatch, "twice"},
		{"an empty plane", change(func(b *DevicePutBlock) { b.Planes[1].Spans = nil }), StatusInvalid, "empty"},
		{"a negative span", change(func(b *DevicePutBlock) { b.Planes[1].Spans[0].LengthBytes = -1 }), StatusInvalid, "span of -1"},
		{"over the limit", change(func(b *DevicePutBlock) { b.Planes[1].Spans[0].LengthBytes = 1 << 20 }), StatusTooLarge, "MaxBlockBytes"},
		{"another seal", change(func(b *DevicePutBlock) { s := SealOf(make([]byte, 1666), make([]byte, 3334)); b.Seal = &s }), StatusCorrupt, "seal"},
		{"a seal of another length", change(func(b *DevicePutBlock) { s := SealOf(make([]byte, 1), make([]byte, 1)); b.Seal = &s }), StatusLengthMismatch, "seal"},
	} {
		t.Run(c.name, func(t *testing.T) {
			copied := r.g.outN
			rs := r.put(context.Background(), c.b, blockOnGPU(r.g, 100+i, 0, 5000))
			var be *BlockError
			if rs[0].Status != c.want || !errors.As(rs[0].Err, &be) || be.Status != c.want || !strings.Contains(rs[0].Err.Error(), c.says) {
				t.Errorf("%v %v", rs[0].Status, rs[0].Err)
			}
			if n := r.g.outN - copied; rs[1].Status != StatusOK || n != 1 && c.b.Seal == nil {
				t.Errorf("%v %v, %d blocks were copied", rs[1].Status, rs[1].Err, n)
			}
			wantStatus(t, r.n, 1, 5000, StatusMiss)
		})
	}
	b := blockOnGPU(r.g, 1, 0, 5000)
	if res := r.n.PutFromDevice(context.Background(), nil, []DevicePutBlock{b}, PutOptions{})[0]; res.Status != StatusInvalid {
		t.Errorf("no device: %v", res.Err)
	}
	k, v := contentOf(1, 0, 5000)[:1666], contentOf(1, 0, 5000)[1666:]
	seal := SealOf(k, v)
	if b.Seal = &seal; r.put(context.Background(), b)[0].Status != StatusOK {
		t.Error("the right seal is refused")
	}
	wantBlock(t, r.n, 1, 0, 5000)
}

// TestDevicePutStates: read-only, of an old epoch, and closed.
func TestDevicePutStates(t *testing.T) {
	r := newGPURig(t, 0)
	put := func(want Status) {
		t.Helper()
		if res := r.put(context.Background(), blockOnGPU(r.g, 0, 0, 5000))[0]; res.Status != want || r.g.outN != 0 {
			t.Errorf("%v %v, want %v; %d copies", res.Status, res.Err, want, r.g.outN)
		}
	}
	r.s.health.set("test", HealthReadOnly, "as a test wants it")
	put(StatusShed)
	r.s.health.clear("test")
	if _, err := r.n.BumpEpoch(context.Background()); err != nil {
		t.Fatal(err)
	}
	put(StatusStaleEpoch)
	mustClose(t, r.s)
	put(StatusClosed)
}

// TestLaw2GPUPut: a block that did not leave the GPU, or changed on its way, is
// not stored, and its neighbours are.
func TestLaw2GPUPut(t *testing.T) {
	tally := faulttest.New(t)
	r := newGPURig(t, 0)
	r.g.onDevice = true
	for i, c := range []struct {
		name string
		arm  func(f *faulttest.Fault)
		want Status
	}{
		{"the copy fails", func(f *faulttest.Fault) { r.g.out = r.strikeAt(&r.g.outN, 2, f, errors.New("test")) }, StatusShed},
		{"the device is lost", func(f *faulttest.Fault) { r.g.out = r.strikeAt(&r.g.outN, 2, f, gpu.ErrDeviceLost) }, StatusShed},
		{"no room", func(f *faulttest.Fault) { r.g.out = r.strikeAt(&r.g.outN, 2, f, gpu.ErrExhausted) }, StatusShed},
		{"a bit flips", func(f *faulttest.Fault) {
			at := r.g.outN + 2
			r.g.spoil = func(k int, p []byte) {
				if k == at {
					p[len(p)/2] ^= 1
					f.Fire()
				}
			}
		}, StatusCorrupt},
	} {
		f := tally.Try(c.name)
		c.arm(f)
		var blocks []DevicePutBlock
		for j := range 4 {
			blocks = append(blocks, blockOnGPU(r.g, 10*i+j, 0, 70000))
		}
		for j, res := range r.put(context.Background(), blocks...) {
			want := StatusOK
			if j == 2 {
				want = c.want
			}
			if res.Status != want {
				t.Errorf("%s: block %d: %v %v, want %v", c.name, j, res.Status, res.Err, want)
			}
		}
		r.g.out, r.g.spoil = nil, nil
		for j := range 4 {
			if j == 2 {
				wantStatus(t, r.n, 10*i+j, 70000, StatusMiss)
				continue
			}
			wantBlock(t, r.n, 10*i+j, 0, 70000)
		}
		if !t.Failed() {
			f.Survive()
		}
	}
}

// strikeAt fails the k-th copy from now on.
func (r *gpuRig) strikeAt(count *int, k int, f *faulttest.Fault, err error) func(int) error {
	at := *count + k
	return func(now int) error {
		if now != at {
			return nil
		}
		f.Fire()
		return fmt.Errorf("as a test wants it: %w", err)
	}
}

// TestDevicePutLeaves: a caller whose context ends while its bytes are copied
// is told Timeout, and its memory is not read any more.
func TestDevicePutLeaves(t *testing.T) {
	r := newGPURig(t, 0)
	r.g.block = make(chan struct{})
	ctx, cancel := context.WithCancel(context.Background())
	done := start(t, "the put", func() []PutResult { return r.put(ctx, blockOnGPU(r.g, 0, 0, 70000)) })
	cancel()
	if res := done()[0]; res.Status != StatusTimeout || !errors.Is(res.Err, context.Canceled) {
		t.Errorf("%+v", res)
	}
	wantStatus(t, r.n, 0, 70000, StatusMiss)
}

// TestDeviceSubmit: both operations as they are submitted.
func TestDeviceSubmit(t *testing.T) {
	r := newGPURig(t, 1, 5000)
	get := &GetToDeviceOp{Namespace: r.n, Blocks: []DeviceGetBlock{wholeOnGPU(r.g, 0, 5000).block}}
	put := &PutFromDeviceOp{Namespace: r.n, Blocks: []DevicePutBlock{blockOnGPU(r.g, 1, 0, 5000)}}
	done := make(chan struct{}, 2)
	for _, op := range []Op{get, put} {
		if err := r.s.Submit(op, func() { done <- struct{}{} }); err != nil {
			t.Fatal(err)
		}
	}
	<-done
	<-done
	// There is no device in them; with one they do as the calls do.
	if len(get.Results) != 1 || get.Results[0].Status != StatusInvalid || len(put.Results) != 1 || put.Results[0].Status != StatusInvalid {
		t.Errorf("%+v %+v", get.Results, put.Results)
	}
	for _, op := range []Op{(*GetToDeviceOp)(nil), (*PutFromDeviceOp)(nil), &GetToDeviceOp{}, &PutFromDeviceOp{}} {
		if err := r.s.Submit(op, func() {}); !errors.Is(err, ErrInvalid) {
			t.Errorf("%T without a namespace: %v", op, err)
		}
	}
}

// TestDeviceEvents: an event of a GPU is one of the store, and a reason of its
// health as long as the path is off; the state stays.
func TestDeviceEvents(t *testing.T) {
	r := newGPURig(t, 0)
	reasons := func() string { return strings.Join(r.s.Health().Reasons, "\n") }
	for _, c := range []struct {
		e     gpu.Event
		holds string // in the reasons of health; "": none are left
	}{
		{gpu.Event{Type: gpu.EventRouteProven, GPU: "GPU-1", Dir: "/d", Reason: "by 9 checks"}, ""},
		{gpu.Event{Type: gpu.EventRouteDemoted, GPU: "GPU-1", Dir: "/d", Reason: "wrong bytes"}, "wrong bytes"},
		{gpu.Event{Type: gpu.EventRouteBanned, GPU: "GPU-1", Dir: "/d", Reason: "hung"}, "hung"},
		{gpu.Event{Type: gpu.EventRouteProven, GPU: "GPU-1", Dir: "/d"}, ""},
		{gpu.Event{Type: gpu.EventDeviceLost, GPU: "GPU-2", Reason: "719"}, "719"},
		{gpu.Event{Type: gpu.EventCorruptCopy, GPU: "GPU-3", Reason: "bus"}, "719"},
	} {
		r.s.DeviceEvent(c.e)
		all := r.s.Events(0)
		last := all[len(all)-1]
		if last.Kind != EventDevice || !strings.Contains(last.Message, string(c.e.Type)) || !strings.Contains(last.Message, c.e.GPU) || !strings.Contains(last.Message, c.e.Reason) {
			t.Errorf("%v", last)
		}
		if got := reasons(); (got == "") != (c.holds == "") || !strings.Contains(got, c.holds) {
			t.Errorf("after %v the reasons are %q", c.e.Type, got)
		}
		if st := r.s.Health().State; st != HealthOK {
			t.Errorf("after %v the store is %v", c.e.Type, st)
		}
	}
	if r.put(context.Background(), blockOnGPU(r.g, 0, 0, 5000))[0].Status != StatusOK {
		t.Error("a lost GPU stops puts from another one")
	}
}
