package reports_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/gputest"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// onDevice is a block in device memory, its second plane in two spans.
func (d *deviceRig) onDevice(id, size int) engine.DevicePutBlock {
	p, cut := contentOf(id, size), planeCut(size)
	fill := func(p []byte) gpu.Span {
		s := d.span(len(p))
		d.x.Write(s.Ptr, p)
		return s
	}
	return engine.DevicePutBlock{Hash: hashOf(id), Planes: []engine.DevicePlane{
		{Name: "k", Spans: []gpu.Span{fill(p[:cut])}},
		{Name: "v", Spans: []gpu.Span{fill(p[cut : cut+1000]), fill(p[cut+1000:])}},
	}}
}

// TestFaultGPUPut: every fault of a copy out, for one block and in the middle of
// a batch. The block that was struck is not stored; the others are, and are
// what was on the GPU. Bytes that the bus made wrong are found by the seal
// that the kernel took before.
func TestFaultGPUPut(t *testing.T) {
	tally := faulttest.New(t)
	faults := []gpuFault{
		{"cuMemcpyDtoHAsync_v2", gputest.Fault{Code: 1}, false},
		{"cuMemcpyDtoDAsync_v2", gputest.Fault{Code: 1}, false},
		{"cuMemcpyDtoHAsync_v2", gputest.Fault{Kind: gputest.Stale}, true},
		{"cuMemcpyDtoHAsync_v2", gputest.Fault{Kind: gputest.Half}, true},
		{"cuMemcpyDtoHAsync_v2", gputest.Fault{Kind: gputest.Flip}, true},
		{"cuMemHostRegister_v2", gputest.Fault{Code: 801}, false},
		{"cuMemcpyDtoDAsync_v2", gputest.Fault{Kind: gputest.Lost, Code: 719}, false},
	}
	next := 10000
	eachKernel(t, func(t *testing.T, specs []string, kernel bool) {
		checkLeaks(t)
		s := newStore(t)
		for _, n := range []int{1, 64} {
			for _, c := range faults {
				if c.corrupt && !kernel {
					continue
				}
				name := fmt.Sprint(c, " ", n, " kernel ", kernel)
				f := tally.Try(name)
				t.Run(name, func(t *testing.T) {
					strikePut(t, s, f, c, n, next, specs)
				})
				next += n
			}
		}
	})
}

func strikePut(t *testing.T, s *storeRig, f *faulttest.Fault, c gpuFault, n, first int, specs []string) {
	t.Helper()
	x := build(t, specs)
	d := openDevice(t, x, 0, nil)
	var blocks []engine.DevicePutBlock
	var hashes [][]byte
	for i := range n {
		blocks, hashes = append(blocks, d.onDevice(first+i, smallBytes)), append(hashes, hashOf(first+i))
	}
	fault := c.fault
	if n > 1 && c.call != "cuMemHostRegister_v2" {
		fault.From = faultAt
	}
	if fault.Kind != gputest.Fail || n > 1 && c.call != "cuMemHostRegister_v2" {
		fault.Count = 1
	}
	if c.corrupt && n == 1 {
		fault.From = 2 // the first copy out is of the kernel's answers
	}
	x.Set(c.call, fault)
	results := s.space.PutFromDevice(context.Background(), d.dev, blocks, engine.PutOptions{})
	if x.Fired(c.call) > 0 {
		f.Fire()
	}
	x.Clear()
	refused := 0
	for i, st := range s.space.Has(context.Background(), hashes) {
		switch r := results[i]; {
		case r.Status == engine.StatusOK && st == engine.StatusOK:
			s.wantBlock(t, first+i, smallBytes)
		case r.Status == engine.StatusOK || st != engine.StatusMiss:
			t.Errorf("block %d: %v %v, and the store says %v", i, r.Status, r.Err, st)
		case r.Status == engine.StatusShed && !c.corrupt, r.Status == engine.StatusCorrupt && c.corrupt, r.Status == engine.StatusShed:
			refused++
		default:
			t.Errorf("block %d: %v %v", i, r.Status, r.Err)
		}
	}
	// In a batch the fault may strike the kernel's answers, which are not used
	// then: the blocks may all be sound.
	mayBeAnswers := n > 1 && c.call == "cuMemcpyDtoHAsync_v2" && len(specs) == 0
	if refused == 0 && !mayBeAnswers {
		t.Error("no block was refused")
	}
	d.close()
	if c.fault.Kind != gputest.Lost {
		x.Check(t)
	}
	if !t.Failed() {
		f.Survive()
	}
}

// wantBlock reads a block to the host.
func (s *storeRig) wantBlock(t *testing.T, id, size int) {
	t.Helper()
	got := make([]byte, size)
	cut := planeCut(size)
	r := s.space.Get(context.Background(), []engine.GetBlock{{Hash: hashOf(id), Parts: []engine.Part{
		{Plane: "k", Spans: [][]byte{got[:cut]}}, {Plane: "v", Spans: [][]byte{got[cut:]}},
	}}}, engine.GetOptions{})[0]
	if r.Status != engine.StatusOK || string(got) != string(contentOf(id, size)) {
		t.Errorf("block %d: %v, WRONG BYTES or none: %v", id, r.Status, r.Err)
	}
}
