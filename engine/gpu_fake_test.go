package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/gpu"
	cuda "github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/sums"
)

// fakeGPU is a device whose memory is a slice of the host's. It does what
// package gpu promises, one item after the other, and fails where a test says
// so: in decides for the k-th block that is copied in since the beginning,
// direct for the k-th that is read directly.
type fakeGPU struct {
	t testing.TB

	mu          sync.Mutex
	mem         []byte
	next        int64
	pinned      int // buffers that are out
	pinnedLimit int // bytes; 0: none
	compares    bool

	in, out, direct func(k int) error
	spoil           func(k int, landed []byte) // what a direct read brings
	block           chan struct{}              // copies wait for it, or their context
	inN, outN       int
	directN         int
	fellBack        int64
	checked         int // checks that came with copies
	onDevice        bool
	rt              *fakeRoute
}

const fakeBase = 1 << 40

func newFakeGPU(t testing.TB, memBytes int) *fakeGPU {
	g := &fakeGPU{t: t, mem: bytes.Repeat([]byte{0xa5}, memBytes)}
	t.Cleanup(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.pinned != 0 && !t.Failed() {
			t.Errorf("%d buffers of pinned memory are still out", g.pinned)
		}
	})
	return g
}

// alloc is a span of new memory, poisoned, with poison around it.
func (g *fakeGPU) alloc(n int64) gpu.Span {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.next += 64
	s := gpu.Span{Ptr: cuda.DevicePtr(fakeBase + g.next), LengthBytes: n}
	if g.next += n + 64; g.next > int64(len(g.mem)) {
		g.t.Fatal("the fake GPU has no memory left")
	}
	return s
}

func (g *fakeGPU) bytes(s gpu.Span) []byte { return g.mem[int64(s.Ptr)-fakeBase:][:s.LengthBytes] }

// around tells whether the bytes at the borders of a span are as alloc left
// them.
func (g *fakeGPU) around(s gpu.Span) bool {
	at := int64(s.Ptr) - fakeBase
	return untouched(g.mem[at-64:at]) && untouched(g.mem[at+s.LengthBytes:][:64])
}

type fakePinned struct {
	g *fakeGPU
	b *aligned.Buffer
	n int
}

func (p *fakePinned) Bytes() []byte { return p.b.Bytes()[:p.n] }
func (p *fakePinned) Free() {
	p.g.mu.Lock()
	p.g.pinned--
	p.g.mu.Unlock()
	p.b.Free()
}

func (g *fakeGPU) takePinned(ctx context.Context, n int) (pinnedMemory, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if g.pinnedLimit > 0 && n > g.pinnedLimit {
		return nil, gpu.ErrTooLarge
	}
	b, err := aligned.Alloc(n)
	if err != nil {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.pinned++
	return &fakePinned{g, b, n}, nil
}

func (g *fakeGPU) comparesCopies() bool { return g.compares }

func (g *fakeGPU) countFellBack(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fellBack += n
}

// wait blocks as long as the test wants, before anything is touched.
func (g *fakeGPU) wait(ctx context.Context) error {
	if g.block != nil {
		select {
		case <-g.block:
		case <-ctx.Done():
		}
	}
	return ctx.Err()
}

func verdictOf(fault func(int) error, k int) error {
	if fault == nil {
		return nil
	}
	return fault(k)
}

func (g *fakeGPU) copyIn(ctx context.Context, items []gpu.CopyIn) {
	err := g.wait(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range items {
		it := &items[i]
		g.checked += len(it.Checks)
		if it.Err = err; err == nil {
			it.Err = verdictOf(g.in, g.inN)
		}
		g.inN++
		if it.Err == nil {
			it.Err = g.deliver(it.Src, it.Checks, it.Moves)
		}
	}
}

// deliver compares and moves, as the memory of a Device does.
func (g *fakeGPU) deliver(src []byte, checks []gpu.Check, moves []gpu.Move) error {
	for _, c := range checks {
		if sums.Chunk(src[c.OffsetBytes:][:c.LengthBytes]) != c.Sum {
			return fmt.Errorf("chunk at %d: %w", c.OffsetBytes, gpu.ErrMismatch)
		}
	}
	for _, m := range moves {
		if len(checks) > 0 && !covered(checks, m) {
			return fmt.Errorf("%w: bytes are moved that no check covers", gpu.ErrInvalid)
		}
	}
	for _, m := range moves {
		copy(g.bytes(m.Dst), src[m.OffsetBytes:])
	}
	return nil
}

// covered reports whether some check looked at each byte of a move.
func covered(checks []gpu.Check, m gpu.Move) bool {
	sorted := slices.SortedFunc(slices.Values(checks), func(a, b gpu.Check) int { return cmp.Compare(a.OffsetBytes, b.OffsetBytes) })
	at := m.OffsetBytes
	for _, c := range sorted {
		if c.OffsetBytes <= at {
			at = max(at, c.OffsetBytes+c.LengthBytes)
		}
	}
	return at >= m.OffsetBytes+m.Dst.LengthBytes
}

// reset frees and poisons all memory that was given out.
func (g *fakeGPU) reset() {
	for rest := g.mem[:g.next]; len(rest) > 0; {
		rest = rest[copy(rest, poisonPage):]
	}
	g.next = 0
}

var poisonPage = bytes.Repeat([]byte{0xa5}, 4096)

func (g *fakeGPU) copyOut(ctx context.Context, items []gpu.CopyOut) {
	err := g.wait(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range items {
		it := &items[i]
		if it.Err = err; err == nil {
			it.Err = verdictOf(g.out, g.outN)
		}
		g.outN++
		if it.Err != nil {
			continue
		}
		var all []byte
		for _, s := range it.Src {
			all = append(all, g.bytes(s)...)
		}
		if len(all) != len(it.Dst) {
			it.Err = gpu.ErrInvalid
			continue
		}
		copy(it.Dst, all)
		if it.SumsOnDevice = g.onDevice; !g.onDevice {
			all = it.Dst
		}
		for _, n := range it.PlaneBytes {
			it.Sums, all = sums.Chunks(it.Sums, all[:n]), all[n:]
		}
		if g.spoil != nil {
			g.spoil(g.outN-1, it.Dst)
		}
	}
}

// fakeRoute reads with pread, and remembers which files it has seen.
type fakeRoute struct {
	g         *fakeGPU
	dir       string
	files     map[gpu.FileID]bool
	forgotten int
}

// prove switches the direct path of a directory on.
func (g *fakeGPU) prove(dir string) *fakeRoute {
	g.rt = &fakeRoute{g: g, dir: dir, files: map[gpu.FileID]bool{}}
	return g.rt
}

func (g *fakeGPU) route(dir string) directRoute {
	if g.rt == nil || g.rt.dir != dir {
		return nil
	}
	return g.rt
}

func (r *fakeRoute) read(ctx context.Context, items []gpu.DirectRead) {
	g := r.g
	err := g.wait(ctx)
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range items {
		it := &items[i]
		r.files[it.File] = true
		if it.Err = err; err == nil {
			it.Err = verdictOf(g.direct, g.directN)
		}
		g.directN++
		if it.Err == nil {
			it.Err = r.one(it)
		}
	}
}

func (r *fakeRoute) one(it *gpu.DirectRead) error {
	if it.FileOffsetBytes%4096 != 0 || it.LengthBytes%4096 != 0 || len(it.Checks) == 0 {
		return fmt.Errorf("%w: %d bytes at %d, %d checks", gpu.ErrInvalid, it.LengthBytes, it.FileOffsetBytes, len(it.Checks))
	}
	f, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", it.FD))
	if err != nil {
		return err
	}
	defer f.Close()
	landed := make([]byte, it.LengthBytes)
	if _, err := f.ReadAt(landed, it.FileOffsetBytes); err != nil {
		return errors.Join(gpu.ErrShort, err)
	}
	if r.g.spoil != nil {
		r.g.spoil(r.g.directN-1, landed)
	}
	return r.g.deliver(landed, it.Checks, it.Moves)
}

func (r *fakeRoute) forget(id gpu.FileID) {
	r.g.mu.Lock()
	defer r.g.mu.Unlock()
	if r.files[id] {
		r.forgotten++
		delete(r.files, id)
	}
}
