package engine

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// TestLaw2GPUGet: a block that did not reach the GPU is no block that did: a
// miss where the host path fails, a fall back where the direct one does. The
// others of the batch come.
func TestLaw2GPUGet(t *testing.T) {
	tally := faulttest.New(t)
	r := newGPURig(t, 12, 70000)
	broken := errors.New("the test broke it")
	for _, c := range []struct {
		name         string
		host, direct error
		want         Status
	}{
		{"host fails", broken, nil, StatusMiss},
		{"host has no room", gpu.ErrExhausted, nil, StatusMiss},
		{"host says too large", gpu.ErrTooLarge, nil, StatusMiss},
		{"host is lost", gpu.ErrDeviceLost, nil, StatusMiss},
		{"host brings wrong bytes", gpu.ErrMismatch, nil, StatusMiss},
		{"direct fails", nil, broken, StatusOK},
		{"direct hangs", nil, gpu.ErrHung, StatusOK},
		{"direct is short", nil, gpu.ErrShort, StatusOK},
		{"direct is off", nil, gpu.ErrRouteOff, StatusOK},
		{"direct brings wrong bytes", nil, gpu.ErrMismatch, StatusOK},
		{"both fail", broken, broken, StatusMiss},
		{"both bring wrong bytes", gpu.ErrMismatch, gpu.ErrMismatch, StatusMiss},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.direct != nil {
				r.needsRoute(t)
			}
			f := tally.Try(c.name)
			r.g.reset()
			var all []*onGPU
			for id := range 12 {
				all = append(all, wholeOnGPU(r.g, id, 70000))
			}
			before := r.s.Stats()
			if c.host != nil {
				r.g.in = r.strikeAt(&r.g.inN, 5, f, c.host)
			}
			struck := 5
			if c.direct != nil {
				r.g.direct = r.strikeAt(&r.g.directN, 5, f, c.direct)
				if c.host != nil { // the one that fell back is the first there
					r.g.in = r.strikeAt(&r.g.inN, 0, f, c.host)
				}
			}
			res := r.get(context.Background(), all, DeviceGetOptions{HostOnly: c.direct == nil})
			r.g.in, r.g.direct = nil, nil
			for i := range all {
				want := StatusOK
				if i == struck {
					want = c.want
				}
				all[i].check(t, r.g, res[i], want)
				if res[i].FellBack != (i == struck && c.direct != nil) {
					t.Errorf("block %d: %+v", i, res[i])
				}
			}
			r.compareTotals(t, before, c.host, c.direct)
			if !t.Failed() {
				f.Survive()
			}
		})
	}
}

// compareTotals holds the counters to one block that was struck.
func (r *gpuRig) compareTotals(t *testing.T, before Stats, host, direct error) {
	t.Helper()
	st := r.s.Stats()
	wantTotals(t, st.HostBounce)
	wantTotals(t, st.CuFile)
	one := func(err error, corrupt bool) int64 {
		if err != nil && errors.Is(err, gpu.ErrMismatch) == corrupt {
			return 1
		}
		return 0
	}
	h, d := st.HostBounce, st.CuFile
	if h.Corrupt-before.HostBounce.Corrupt != one(host, true) || h.Failed-before.HostBounce.Failed != one(host, false) ||
		d.Corrupt-before.CuFile.Corrupt != one(direct, true) || d.Failed-before.CuFile.Failed != one(direct, false) {
		t.Errorf("host %+v, direct %+v", h, d)
	}
	fell := int64(0)
	if direct != nil && host == nil {
		fell = 1
	}
	if d.FellBack-before.CuFile.FellBack != fell || r.g.fellBack != d.FellBackBytes {
		t.Errorf("%d fell back, %d bytes; the device was told of %d", d.FellBack, d.FellBackBytes, r.g.fellBack)
	}
	if st.Quarantined != 0 {
		t.Errorf("%d blocks are quarantined for what the GPU did", st.Quarantined)
	}
}

// TestFaultGPUMedia: a block that is bad on the disk is found by the direct
// path, but the host decides: it is Corrupt and quarantined there.
func TestFaultGPUMedia(t *testing.T) {
	tally := faulttest.New(t)
	for _, hostOnly := range []bool{true, false} {
		t.Run(fmt.Sprint("host only ", hostOnly), func(t *testing.T) {
			r := newGPURig(t, 3, 70000)
			f := tally.Try(fmt.Sprint("a flipped bit, host only ", hostOnly))
			found, err := r.s.lookup(context.Background(), []index.Key{{Namespace: r.n.info.Number, Hash: string(hashOf(1))}}, false)
			if err != nil {
				t.Fatal(err)
			}
			e := found[0].entry
			at := e.Address.Offset() + int64(e.HeaderPages)*4096 + 40000
			flipByte(t, r.s.fs, disk.SegmentName(e.Address.Segment), at)
			f.Fire()
			all := []*onGPU{wholeOnGPU(r.g, 0, 70000), wholeOnGPU(r.g, 1, 70000), wholeOnGPU(r.g, 2, 70000)}
			for i, res := range r.get(context.Background(), all, DeviceGetOptions{HostOnly: hostOnly}) {
				want := StatusOK
				if i == 1 {
					want = StatusCorrupt
				}
				all[i].check(t, r.g, res, want)
			}
			st := r.s.Stats()
			if direct := !hostOnly && r.route != nil; st.Quarantined != 1 || st.HostBounce.Corrupt != 1 || (st.CuFile.Corrupt == 1) != direct || st.CuFile.FellBack != 0 {
				t.Errorf("%d quarantined, %+v, %+v", st.Quarantined, st.HostBounce, st.CuFile)
			}
			if !t.Failed() {
				f.Survive()
			}
		})
	}
}

// TestDeviceGetLeaves: a caller whose context ends is told Timeout, whether the
// disk or the GPU does not answer; nothing is written from then on, and all
// memory comes back.
func TestDeviceGetLeaves(t *testing.T) {
	t.Run("the GPU", func(t *testing.T) {
		r := newGPURig(t, 2, 70000)
		r.g.block = make(chan struct{})
		for _, hostOnly := range []bool{true, false} {
			all := []*onGPU{wholeOnGPU(r.g, 0, 70000), wholeOnGPU(r.g, 1, 70000)}
			ctx, cancel := context.WithCancel(context.Background())
			done := start(t, "the get", func() []DeviceGetResult { return r.get(ctx, all, DeviceGetOptions{HostOnly: hostOnly}) })
			cancel()
			for i, res := range done() {
				all[i].check(t, r.g, res, StatusTimeout)
			}
		}
	})
	t.Run("the disk", func(t *testing.T) {
		checkLeaks(t)
		slow := newStallFS(vfs.NewMem(), vfs.OpRead, "segments/")
		s := mustOpen(t, testOptions(slow))
		r := &gpuRig{s: s, n: mustSpace(t, s), g: newFakeGPU(t, 1<<20)}
		mustPut(t, r.n, blockOf(0, 0, 60000))
		mustFlush(t, s)
		slow.stall(t)
		o := wholeOnGPU(r.g, 0, 60000)
		ctx, cancel := context.WithCancel(context.Background())
		done := start(t, "the get", func() []DeviceGetResult { return r.get(ctx, []*onGPU{o}, DeviceGetOptions{}) })
		eventually(t, "the read is under way", func() bool { return slow.stalled.Load() > 0 })
		cancel()
		o.check(t, r.g, done()[0], StatusTimeout)
		slow.release()
		mustClose(t, s) // waits for the read
		o.check(t, r.g, DeviceGetResult{Status: StatusTimeout, Err: context.Canceled}, StatusTimeout)
		if r.g.inN != 0 {
			t.Error("a block is copied that nobody waits for")
		}
	})
}
