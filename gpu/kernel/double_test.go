package kernel

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/gputest"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/sums"
)

// build makes doubles that are looked at for leaks when the contexts of the test
// are given back. On a lost device the driver does not let pinned memory go, so
// that stays mapped.
func build(t *testing.T, lost bool, options ...gputest.Option) *gputest.Doubles {
	t.Helper()
	d := gputest.Build(t, options...)
	t.Cleanup(func() {
		d.Idle()
		for _, leak := range d.Leaks() {
			if !lost || !strings.Contains(leak, "pinned memory") {
				t.Error("leak: " + leak)
			}
		}
	})
	return d
}

// openContext takes a context of the doubles and gives it back.
func openContext(t *testing.T, d *gputest.Doubles, ordinal int) (*driver.Context, [16]byte) {
	t.Helper()
	drv := d.Open(t)
	info, err := drv.Device(ordinal)
	if err != nil {
		t.Fatal(err)
	}
	c, err := drv.RetainPrimary(ordinal)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Release(); err != nil {
			t.Error(err)
		}
	})
	return c, info.UUID
}

// The kernel proves itself on both devices, through the C interface, with work
// that is really done later.
func TestKernelProvenOnTheDoubles(t *testing.T) {
	d := build(t, false)
	for ordinal := range 2 {
		c, uuid := openContext(t, d, ordinal)
		k, err := Load(context.Background(), c, uuid)
		if err != nil {
			t.Fatal(err)
		}
		if err := k.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Every fault of loading and proving: refused with its reason, and nothing is
// left behind.
func TestFaultKernelRefused(t *testing.T) {
	code := func(n int) gputest.Fault { return gputest.Fault{Code: n} }
	kind := func(k gputest.Kind, from, count int) gputest.Fault {
		return gputest.Fault{Kind: k, From: from, Count: count}
	}
	cases := []struct {
		call  string
		fault gputest.Fault
		step  Step
		says  []string
	}{
		{"cuModuleLoadDataEx", code(218), StepLoad, []string{"218", "CUDA_ERROR_INVALID_PTX", "the compiler says"}},
		{"cuModuleLoadDataEx", code(221), StepLoad, []string{"221", "CUDA_ERROR_JIT_COMPILER_NOT_FOUND", "libnvidia-ptxjitcompiler"}},
		{"cuModuleLoadDataEx", code(222), StepLoad, []string{"222", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "update the driver"}},
		{"cuModuleLoadDataEx", code(223), StepLoad, []string{"223", "CUDA_ERROR_JIT_COMPILATION_DISABLED", "CUDA_DISABLE_PTX_JIT"}},
		{"cuModuleLoadDataEx", code(209), StepLoad, []string{"209", "CUDA_ERROR_NO_BINARY_FOR_GPU"}},
		{"cuModuleGetFunction", gputest.Fault{Code: 500, From: 2}, StepLoad, []string{"500"}},
		{"cuMemAlloc_v2", code(2), StepMemory, []string{"CUDA_ERROR_OUT_OF_MEMORY"}},
		{"cuMemHostRegister_v2", code(801), StepMemory, []string{"801", "pinning"}},
		{"cuStreamCreate", code(2), StepMemory, []string{"stream"}},
		{"cuLaunchKernel", kind(gputest.Skip, 1, 0), StepVectors, []string{"status 0"}},
		{"cuLaunchKernel", kind(gputest.Skip, 1, 1), StepVectors, []string{"kernel computed"}},
		{"cuLaunchKernel", kind(gputest.Skip, 2, 1), StepVectors, []string{"round 1", "status 0"}},
		{"cuLaunchKernel", kind(gputest.Skip, 4, 1), StepVectors, []string{"round 2", "status 0"}},
		{"cuLaunchKernel", kind(gputest.Liar, 1, 0), StepVectors, []string{"kernel computed"}},
		{"cuLaunchKernel", kind(gputest.Liar, 4, 1), StepVectors, []string{"round 2"}},
		{"cuLaunchKernel", code(701), StepRun, []string{"701"}},
		{"cuLaunchKernel", gputest.Fault{Kind: gputest.Lost, Code: 700}, StepRun, []string{"700", "CUDA_ERROR_ILLEGAL_ADDRESS"}},
		{"cuStreamSynchronize", gputest.Fault{Kind: gputest.Lost, Code: 719}, StepRun, []string{"719"}},
		{"cuMemcpyHtoDAsync_v2", kind(gputest.Stale, 1, 1), StepMemory, []string{"not the same"}},
		{"cuMemcpyHtoDAsync_v2", kind(gputest.Stale, 2, 1), StepVectors, []string{"kernel computed"}},
		{"cuMemcpyHtoDAsync_v2", kind(gputest.Stale, 4, 1), StepVectors, []string{"round 2"}},
		{"cuMemcpyHtoDAsync_v2", kind(gputest.Half, 1, 1), StepMemory, []string{"not the same"}},
		{"cuMemcpyHtoDAsync_v2", kind(gputest.Flip, 1, 1), StepMemory, []string{"not the same"}},
		{"cuMemcpyDtoHAsync_v2", kind(gputest.Stale, 1, 1), StepVectors, []string{"status 0"}},
		{"cuMemcpyDtoHAsync_v2", kind(gputest.Stale, 2, 1), StepMemory, []string{"not the same"}},
		{"cuMemcpyDtoHAsync_v2", kind(gputest.Half, 1, 1), StepVectors, []string{"round 1"}},
		{"cuMemcpyDtoHAsync_v2", kind(gputest.Flip, 1, 1), StepVectors, []string{"round 1"}},
		{"cuMemsetD8Async", code(1), StepMemory, []string{"cuMemsetD8Async"}},
	}
	tally := faulttest.New(t)
	for _, c := range cases {
		name := fmt.Sprintf("%s %s %d at %d", c.call, c.fault.Kind, c.fault.Code, max(c.fault.From, 1))
		fault := tally.Try(name)
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			lost := c.fault.Kind == gputest.Lost
			d := build(t, lost)
			ctx, uuid := openContext(t, d, 0)
			d.Set(c.call, c.fault)
			k, err := Load(context.Background(), ctx, uuid)
			if d.Fired(c.call) > 0 {
				fault.Fire()
			}
			if k != nil {
				t.Fatal("proven")
			}
			var refusal *NotProvenError
			if !errors.As(err, &refusal) || refusal.Step != c.step || refusal.UUID != uuid {
				t.Fatalf("step %s wanted: %v", c.step, err)
			}
			for _, s := range c.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("the error does not say %q: %v", s, err)
				}
			}
			if errors.Is(err, driver.ErrDeviceLost) != lost {
				t.Errorf("device lost is %t: %v", !lost, err)
			}
			if !t.Failed() {
				fault.Survive()
			}
		})
	}
}

// A driver that does not come back, at each call that may block, and a kernel that
// does not end.
func TestFaultKernelLoadHangs(t *testing.T) {
	tally := faulttest.New(t)
	for _, c := range []struct {
		call string
		kind gputest.Kind
	}{
		{"cuModuleLoadDataEx", gputest.Hang}, {"cuMemAlloc_v2", gputest.Hang}, {"cuLaunchKernel", gputest.Hang},
		{"cuStreamSynchronize", gputest.Hang}, {"cuLaunchKernel", gputest.Stuck},
	} {
		fault := tally.Try(fmt.Sprintf("%s: %s", c.call, c.kind))
		t.Run(c.call+"_"+string(c.kind), func(t *testing.T) {
			d := build(t, false)
			dev, uuid := openContext(t, d, 0)
			d.Set(c.call, gputest.Fault{Kind: c.kind, Count: 1})
			ctx, cancel := context.WithCancel(context.Background())
			go func() {
				waitUntil(t, func() bool { return d.Fired(c.call) > 0 })
				fault.Fire()
				cancel()
			}()
			k, err := Load(ctx, dev, uuid)
			var refusal *NotProvenError
			if k != nil || !errors.As(err, &refusal) || refusal.Step != StepTime {
				t.Errorf("%v", err)
			}
			d.Release()
			// What was begun ends in the background, before the doubles do, and
			// leaves nothing but the context, which is the test's.
			waitUntil(t, func() bool { return goleak.Find() == nil })
			if leaks := d.Leaks(); len(leaks) != 1 {
				t.Errorf("leaks: %q", leaks)
			}
			if !t.Failed() {
				fault.Survive()
			}
		})
	}
}

// An old driver lacks a function: the reason names it.
func TestKernelRefusedByAnOldDriver(t *testing.T) {
	for _, call := range []string{"cuModuleLoadDataEx", "cuLaunchKernel", "cuMemHostRegister_v2"} {
		t.Run(call, func(t *testing.T) {
			d := build(t, false, gputest.Without(call))
			c, uuid := openContext(t, d, 0)
			_, err := Load(context.Background(), c, uuid)
			if !errors.Is(err, ErrNotProven) || !errors.Is(err, driver.ErrMissingSymbol) || !strings.Contains(err.Error(), call) {
				t.Errorf("%v", err)
			}
		})
	}
}

// Many goroutines verify scattered pieces, each on a stream of its own, right
// and wrong ones, against package sums.
func TestVerifyOnTheDoubles(t *testing.T) {
	d := build(t, false)
	c, uuid := openContext(t, d, 1)
	k, err := Load(context.Background(), c, uuid)
	if err != nil {
		t.Fatal(err)
	}
	seed := seedOf(t)
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			b, err := newBench(c)
			if err != nil {
				t.Error(err)
				return
			}
			defer b.close()
			r := rand.New(rand.NewPCG(seed, uint64(worker)))
			for range 5 {
				if err := verifyScattered(r, k, b); err != nil {
					t.Errorf("worker %d: %v", worker, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// verifyScattered runs one job of random pieces and checks every outcome.
func verifyScattered(r *rand.Rand, k *Kernel, b *bench) error {
	arena := b.arena()
	copy(arena, noise(r.Uint64(), len(arena)))
	b.job.Reset()
	pieces := make([]Piece, 1+r.IntN(200))
	for i := range pieces {
		p := randomPiece(r, arena)
		p.LengthBytes = max(p.LengthBytes, 1)
		p.Address = min(p.Address, uint64(len(arena)-p.LengthBytes))
		pieces[i] = p
		p.Address += uint64(b.deviceArena())
		if err := b.job.Add(p); err != nil {
			return err
		}
	}
	if err := errors.Join(b.upload(0x5a), k.Verify(b.stream, b.job), b.c.StreamSynchronize(b.stream)); err != nil {
		return err
	}
	for i, p := range pieces {
		sum := sums.Chunk(arena[p.Address:][:p.LengthBytes])
		want := error(nil)
		if sum != p.Want {
			want = ErrMismatch
		}
		if err := b.job.Verified(i); !errors.Is(err, want) {
			return fmt.Errorf("piece %d, %+v: %w, want %v", i, p, err, want)
		}
		if got, err := b.job.Sum(i); err != nil || got != sum {
			return fmt.Errorf("piece %d, %+v: sum %#x, want %#x: %w", i, p, got, sum, err)
		}
	}
	return nil
}

// Each kind of launch that goes wrong after the proof: no piece passes that was
// not verified, and no wrong one ever.
func TestFaultVerify(t *testing.T) {
	cases := []struct {
		call  string
		fault gputest.Fault
	}{
		{"cuLaunchKernel", gputest.Fault{Kind: gputest.Skip}},
		{"cuLaunchKernel", gputest.Fault{Kind: gputest.Skip, From: 1, Count: 1}},
		{"cuLaunchKernel", gputest.Fault{Kind: gputest.Skip, From: 2, Count: 1}},
		{"cuLaunchKernel", gputest.Fault{Code: 701, From: 2}},
		{"cuMemcpyHtoDAsync_v2", gputest.Fault{Kind: gputest.Stale}},
		{"cuMemcpyDtoHAsync_v2", gputest.Fault{Kind: gputest.Stale}},
		{"cuMemsetD8Async", gputest.Fault{Code: 1}},
		{"cuStreamSynchronize", gputest.Fault{Kind: gputest.Lost, Code: 719}},
	}
	tally := faulttest.New(t)
	for _, c := range cases {
		name := fmt.Sprintf("%s %s %d at %d", c.call, c.fault.Kind, c.fault.Code, max(c.fault.From, 1))
		fault := tally.Try(name)
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			d := build(t, c.fault.Kind == gputest.Lost)
			ctx, uuid := openContext(t, d, 0)
			k, err := Load(context.Background(), ctx, uuid)
			if err != nil {
				t.Fatal(err)
			}
			b, err := newBench(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				b.close()
				_ = k.Close() // fails where the device is lost
			}()
			// The same pieces twice: what the first run left must not count.
			run := func() error {
				b.job.Reset()
				for i := range 9 {
					at := i * 1000
					p := pieceOf(b.arena(), at, 900)
					p.Address += uint64(b.deviceArena())
					if err := b.job.Add(p); err != nil {
						t.Fatal(err)
					}
				}
				return errors.Join(k.Verify(b.stream, b.job), b.c.StreamSynchronize(b.stream))
			}
			if err := errors.Join(b.upload(1), run()); err != nil {
				t.Fatal(err)
			}
			for i := range 9 {
				if err := b.job.Verified(i); err != nil {
					t.Fatal(err)
				}
			}
			d.Set(c.call, c.fault)
			err = run()
			if d.Fired(c.call) > 0 {
				fault.Fire()
			}
			if err == nil { // else nobody looks at the answers
				for i := range 9 {
					if b.job.Verified(i) == nil {
						t.Errorf("piece %d passes", i)
					}
				}
			}
			if !t.Failed() {
				fault.Survive()
			}
		})
	}
}
