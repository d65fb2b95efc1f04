package reports_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/gpu/gputest"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

const (
	bigID, bigBytes = 1000, 600 << 10 // five chunks in each plane
	smallBytes      = 16 << 10        // of a block of the batch: each plane is two pages
	batchBlocks     = 64
	faultAt         = 20 // in the batch
)

// shape is what is asked for when the fault strikes.
type shape struct {
	name string
	at   int // the call that fails
	want func(d *deviceRig) []*wanted
}

func shapes() []shape {
	return []shape{
		{"whole", 1, func(d *deviceRig) []*wanted { return []*wanted{d.whole(bigID, bigBytes)} }},
		{"range", 1, func(d *deviceRig) []*wanted { return []*wanted{d.ranged(bigID, bigBytes)} }},
		{"batch", faultAt, func(d *deviceRig) (all []*wanted) {
			for id := range batchBlocks {
				all = append(all, d.whole(id, smallBytes))
			}
			return all
		}},
	}
}

func (s *storeRig) putMatrix() {
	s.t.Helper()
	s.put(bigID, bigBytes)
	for id := range batchBlocks {
		s.put(id, smallBytes)
	}
}

// gpuFault is a fault of a library, and what must come of it.
type gpuFault struct {
	call  string
	fault gputest.Fault
	// corrupt: the path brings wrong bytes, and says success.
	corrupt bool
}

func (f gpuFault) String() string { return fmt.Sprintf("%s %s %d", f.call, f.fault.Kind, f.fault.Code) }

// directFaults are those of the direct path. Host bounce serves all blocks.
var directFaults = []gpuFault{
	{"cuFileRead", gputest.Fault{Code: 5010}, false},
	{"cuFileRead", gputest.Fault{Kind: gputest.Errno, Code: 5027}, false},
	{"cuFileRead", gputest.Fault{Code: -5}, false},
	{"cuFileRead", gputest.Fault{Kind: gputest.Errno, Code: 5}, false},
	{"cuFileRead", gputest.Fault{Kind: gputest.Short}, false},
	{"cuFileRead", gputest.Fault{Kind: gputest.Zero}, false},
	{"cuFileRead", gputest.Fault{Kind: gputest.Over}, false},
	{"cuFileRead", gputest.Fault{Kind: gputest.Stale}, true},
	{"cuFileRead", gputest.Fault{Kind: gputest.Half}, true},
	{"cuFileRead", gputest.Fault{Kind: gputest.Flip}, true},
	{"cuFileRead", gputest.Fault{Kind: gputest.Shift}, true},
	{"cuFileRead", gputest.Fault{Kind: gputest.Neighbour}, true},
	{"cuFileHandleRegister", gputest.Fault{Code: 5027}, false},
	{"cuFileHandleRegister", gputest.Fault{Code: 5030}, false},
	{"cuFileBufRegister", gputest.Fault{Code: 5013}, false},
}

// hostFaults are those of host bounce, with no direct path beside it: the
// block that they strike is a miss.
var hostFaults = []gpuFault{
	{"cuMemcpyHtoDAsync_v2", gputest.Fault{Code: 1}, false},
	{"cuMemcpyDtoDAsync_v2", gputest.Fault{Code: 1}, false},
	{"cuMemcpyHtoDAsync_v2", gputest.Fault{Kind: gputest.Stale}, true},
	{"cuMemcpyHtoDAsync_v2", gputest.Fault{Kind: gputest.Half}, true},
	{"cuMemcpyHtoDAsync_v2", gputest.Fault{Kind: gputest.Flip}, true},
}

// eachKernel runs a part of the matrix with the verify kernel proven and
// without.
func eachKernel(t *testing.T, run func(t *testing.T, specs []string, kernel bool)) {
	t.Run("kernel", func(t *testing.T) { run(t, nil, true) })
	t.Run("no kernel", func(t *testing.T) { run(t, []string{noKernel}, false) })
}

// build opens the doubles with faults in them from the beginning.
func build(t *testing.T, specs []string) *gputest.Doubles {
	x := gputest.Build(t)
	for _, spec := range specs {
		x.Configure(spec)
	}
	return x
}

// TestFaultGPUDirect: every fault of the direct path, for a whole block, a range
// and in the middle of a batch. Every block is OK and whole, the ones that were
// struck came by host bounce in the same call, the counters say so, and nothing
// is quarantined.
func TestFaultGPUDirect(t *testing.T) {
	tally := faulttest.New(t)
	eachKernel(t, func(t *testing.T, specs []string, kernel bool) {
		checkLeaks(t)
		s := newStore(t)
		s.putMatrix()
		for _, sh := range shapes() {
			x := build(t, specs)
			d := openDevice(t, x, 0, nil)
			all := sh.want(d)
			for i, c := range directFaults {
				if testing.Short() && sh.name == "batch" && i%3 != 0 {
					continue
				}
				name := fmt.Sprint(c, " ", sh.name, " kernel ", kernel)
				f := tally.Try(name)
				if c.call != "cuFileRead" { // what is registered already is registered no more
					d.close()
					x.Check(t)
					x = build(t, specs)
					d = openDevice(t, x, 0, nil)
					all = sh.want(d)
				}
				t.Run(name, func(t *testing.T) { strike(t, s, d, f, c, sh, all) })
			}
			d.close()
			x.Check(t)
		}
	})
}

func strike(t *testing.T, s *storeRig, d *deviceRig, f *faulttest.Fault, c gpuFault, sh shape, all []*wanted) {
	t.Helper()
	for _, w := range all {
		w.poison(d)
	}
	route := d.allow(s.dir)
	fault := c.fault
	switch c.call {
	case "cuFileRead":
		fault.From, fault.Count = sh.at, 1
	case "cuFileHandleRegister":
		fault.Count = 1
	}
	before, fired := s.store.Stats(), d.x.Fired(c.call)
	d.x.Set(c.call, fault)
	results := s.get(d, all)
	if d.x.Fired(c.call) > fired {
		f.Fire()
	}
	d.x.Clear()
	d.x.Idle() // what arrives late has arrived
	fellBack, direct := int64(0), int64(0)
	for i, r := range results {
		all[i].judge(t, d, r)
		if r.Status != engine.StatusOK {
			t.Errorf("block %d: %v", i, r.Err)
		}
		if r.FellBack {
			fellBack++
		}
		if r.Path == engine.PathCuFile {
			direct++
		}
	}
	st := s.store.Stats()
	got := st.CuFile
	if fellBack == 0 || got.FellBack-before.CuFile.FellBack != fellBack || got.Verified-before.CuFile.Verified != direct ||
		got.Attempted != got.Verified+got.Corrupt+got.Failed || (got.Corrupt > before.CuFile.Corrupt) != c.corrupt {
		t.Errorf("%d fell back, %d came directly; before %+v, now %+v", fellBack, direct, before.CuFile, got)
	}
	// Reads that wait for one registration fail together, some in a row.
	if state := route.Status().State; (state == gpu.RouteDemoted) != c.corrupt && c.call == "cuFileRead" {
		t.Errorf("the route is %s", state)
	}
	if st.Quarantined != 0 {
		t.Errorf("%d blocks are quarantined for a fault of the path", st.Quarantined)
	}
	if !t.Failed() {
		f.Survive()
	}
}

// TestFaultGPUHost: every fault of host bounce, with no path beside it, and with
// a direct path that brings wrong bytes before. The block that was struck is a
// miss whose destination holds what it held, or zeros; the others are whole.
// Bytes that the bus made wrong are found by the kernel alone.
func TestFaultGPUHost(t *testing.T) {
	tally := faulttest.New(t)
	eachKernel(t, func(t *testing.T, specs []string, kernel bool) {
		checkLeaks(t)
		s := newStore(t)
		s.putMatrix()
		for _, sh := range shapes() {
			for i, c := range hostFaults {
				if testing.Short() && sh.name == "batch" && i%2 != 0 {
					continue
				}
				for _, directToo := range []bool{false, true} {
					if c.corrupt && (!kernel || directToo) || directToo && c.call == "cuMemcpyDtoDAsync_v2" {
						continue // with wrong tables the kernel reads what is not its memory: the GPU is lost
					}
					name := fmt.Sprint(c, " ", sh.name, " direct ", directToo, " kernel ", kernel)
					f := tally.Try(name)
					t.Run(name, func(t *testing.T) { strikeHost(t, s, f, c, sh, specs, directToo) })
				}
			}
		}
	})
}

func strikeHost(t *testing.T, s *storeRig, f *faulttest.Fault, c gpuFault, sh shape, specs []string, directToo bool) {
	t.Helper()
	x := build(t, specs)
	d := openDevice(t, x, 0, func(o *gpu.Options) { o.VerifyOnDevice = true })
	all := sh.want(d)
	fault, struck := c.fault, int64(1)
	if fault.From, fault.Count = sh.at, 1; directToo {
		// The kernel's own tables go this way too, so every copy fails.
		d.allow(s.dir)
		d.x.Set("cuFileRead", gputest.Fault{Kind: gputest.Stale})
		fault.From, fault.Count, struck = 1, 0, int64(len(all))
	}
	before, fired := s.store.Stats(), d.x.Fired(c.call)
	d.x.Set(c.call, fault)
	results := s.get(d, all)
	if d.x.Fired(c.call) > fired {
		f.Fire()
	}
	d.x.Clear()
	if directToo && s.store.Stats().CuFile.FellBack != before.CuFile.FellBack {
		t.Error("a block counts as fallen back that nothing brought")
	}
	missed, bytes := int64(0), int64(0)
	for i, r := range results {
		all[i].judge(t, d, r)
		bytes += r.Bytes
		switch r.Status {
		case engine.StatusOK:
		case engine.StatusMiss:
			missed++
		default:
			t.Errorf("block %d: %v", i, r.Err)
		}
	}
	st := s.store.Stats()
	now, was := st.HostBounce, before.HostBounce
	corrupt := int64(0)
	if c.corrupt {
		corrupt = missed
	}
	if missed != struck || now.Corrupt-was.Corrupt != corrupt || now.Failed-was.Failed != missed-corrupt ||
		now.Verified-was.Verified != int64(len(all))-missed || st.ServedBytes-before.ServedBytes != bytes {
		t.Errorf("%d of %d blocks are misses; before %+v, now %+v", missed, len(all), was, now)
	}
	if st.CuFile.Verified != 0 || st.Quarantined != 0 {
		t.Errorf("%d blocks came directly, %d are quarantined", st.CuFile.Verified, st.Quarantined)
	}
	d.close()
	x.Check(t)
	if !t.Failed() {
		f.Survive()
	}
}

// TestFaultGPUNoMemory: pinning refused, no memory on the GPU, no context. All
// blocks are misses; and when the fault is over, the same device serves them.
func TestFaultGPUNoMemory(t *testing.T) {
	tally := faulttest.New(t)
	checkLeaks(t)
	s := newStore(t)
	s.putMatrix()
	for _, c := range []gpuFault{
		{"cuMemHostRegister_v2", gputest.Fault{Code: 2}, false},
		{"cuMemHostRegister_v2", gputest.Fault{Code: 801}, false},
		{"cuMemAlloc_v2", gputest.Fault{Code: 2}, false},
		{"cuCtxPushCurrent_v2", gputest.Fault{Code: 201}, false},
	} {
		f := tally.Try(c.String())
		x := gputest.Build(t)
		d := openDevice(t, x, 0, nil)
		all := []*wanted{d.whole(bigID, bigBytes), d.ranged(bigID, bigBytes), d.whole(1, smallBytes)}
		x.Set(c.call, c.fault)
		results := s.get(d, all)
		if x.Fired(c.call) > 0 {
			f.Fire()
		}
		x.Clear()
		d.clock.advance(time.Hour) // what was refused is asked for again after a while
		for i, r := range results {
			if all[i].judge(t, d, r); r.Status != engine.StatusMiss {
				t.Errorf("%s: block %d: %v %v", c, i, r.Status, r.Err)
			}
		}
		for i, r := range s.get(d, all) {
			if all[i].judge(t, d, r); r.Status != engine.StatusOK {
				t.Errorf("%s, and over: block %d: %v %v", c, i, r.Status, r.Err)
			}
		}
		d.close()
		x.Check(t)
		if !t.Failed() {
			f.Survive()
		}
	}
}
