package gputest

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/cespare/xxhash/v2"

	"github.com/sealstone/sealstone/gpu/driver"
)

// piece is one entry of the kernel's table.
type piece struct {
	p    driver.DevicePtr
	n    uint32
	want uint64
}

// kernel has the arrays of a launch, in device memory.
type kernel struct {
	r               *rig
	m               driver.Module
	lanes, finish   driver.Function
	tab, acc, g, st driver.DevicePtr
}

const kernelPieces = 256

func newKernel(r *rig) *kernel {
	r.t.Helper()
	k := &kernel{r: r}
	var err error
	k.m, _, err = r.c.ModuleLoad(ptx)
	r.must(err)
	k.lanes, err = r.c.ModuleFunction(k.m, "kv_xxh64_lanes")
	r.must(err)
	k.finish, err = r.c.ModuleFunction(k.m, "kv_xxh64_finish")
	r.must(err)
	for _, x := range []struct {
		to   *driver.DevicePtr
		size int64
	}{{&k.tab, 24}, {&k.acc, 32}, {&k.g, 8}, {&k.st, 4}} {
		*x.to, err = r.c.MemAlloc(x.size * kernelPieces)
		r.must(err)
	}
	return k
}

// table writes the pieces and zeros the status words.
func (k *kernel) table(pieces []piece) uint32 {
	var b []byte
	for _, p := range pieces {
		b = binary.LittleEndian.AppendUint64(b, uint64(p.p))
		b = binary.LittleEndian.AppendUint32(b, p.n)
		b = binary.LittleEndian.AppendUint32(b, 0)
		b = binary.LittleEndian.AppendUint64(b, p.want)
	}
	k.r.d.Write(k.tab, b)
	k.r.d.Write(k.st, make([]byte, 4*len(pieces)))
	k.r.d.Write(k.g, make([]byte, 8*len(pieces)))
	return uint32(len(pieces))
}

// launch runs both entry points with that many blocks of 64 threads for the
// second, four times as many for the first.
func (k *kernel) launch(count, blocks uint32) {
	k.r.t.Helper()
	var param []byte
	for _, p := range []driver.DevicePtr{k.tab, k.acc, k.g, k.st} {
		param = binary.LittleEndian.AppendUint64(param, uint64(p))
	}
	param = binary.LittleEndian.AppendUint64(param, uint64(count))
	k.r.must(k.r.c.Launch(k.lanes, [3]uint32{4 * blocks, 1, 1}, [3]uint32{64, 1, 1}, param, k.r.s))
	k.r.must(k.r.c.Launch(k.finish, [3]uint32{blocks, 1, 1}, [3]uint32{64, 1, 1}, param, k.r.s))
}

func (k *kernel) status(i int) uint32 {
	return binary.LittleEndian.Uint32(k.r.d.Bytes(k.st+driver.DevicePtr(4*i), 4))
}

// TestKernel compares the kernel of the double with XXH64 of Go, over lengths
// and alignments.
func TestKernel(t *testing.T) {
	r := newRig(t)
	k := newKernel(r)
	content := randomBytes(rigBytes)
	r.d.Write(r.a, content)
	var pieces []piece
	for i := range kernelPieces {
		at, n := rand.IntN(rigBytes), i // every length up to 255, and longer ones
		if i%3 == 0 {
			n = rand.IntN(rigBytes)
		}
		n = min(n, rigBytes-at)
		pieces = append(pieces, piece{r.a + driver.DevicePtr(at), uint32(n), xxhash.Sum64(content[at:][:n])})
	}
	pieces[17].want ^= 1
	k.launch(k.table(pieces), kernelPieces/64)
	r.must(r.c.StreamSynchronize(r.s))
	for i, p := range pieces {
		want := uint32(1)
		if i == 17 {
			want = 2
		}
		if got := k.status(i); got != want {
			t.Errorf("piece %d of %d bytes: status %d, want %d", i, p.n, got, want)
		}
	}
}

// TestKernelThreads: only as many pieces are done as threads were launched.
func TestKernelThreads(t *testing.T) {
	r := newRig(t)
	k := newKernel(r)
	pieces := make([]piece, 100)
	for i := range pieces {
		pieces[i] = piece{r.a, 0, xxhash.Sum64(nil)}
	}
	k.launch(k.table(pieces), 1)
	r.must(r.c.StreamSynchronize(r.s))
	if k.status(63) != 1 || k.status(64) != 0 {
		t.Errorf("64 threads: status of piece 63 is %d, of piece 64 %d; want 1, 0", k.status(63), k.status(64))
	}
}

func TestKernelFaults(t *testing.T) {
	for _, c := range []struct {
		kind Kind
		want uint32
	}{{Skip, 0}, {Liar, 1}} {
		r := newRig(t)
		k := newKernel(r)
		r.d.Set("cuLaunchKernel", Fault{Kind: c.kind})
		k.launch(k.table([]piece{{r.a, 100, 12345}}), 1)
		r.must(r.c.StreamSynchronize(r.s))
		if got := k.status(0); got != c.want || r.d.Fired("cuLaunchKernel") != 2 {
			t.Errorf("%s: status %d, want %d", c.kind, got, c.want)
		}
	}
}

func TestModuleRefused(t *testing.T) {
	r := newRig(t)
	for _, code := range []int{200, 209, 218, 221, 222, 223} {
		r.d.Set("cuModuleLoadDataEx", Fault{Code: code, Count: 1})
		_, log, err := r.c.ModuleLoad(ptx)
		var e *driver.Error
		if !errors.As(err, &e) || e.Code != code || e.Advice == "" || log == "" {
			t.Errorf("%d: %v, log %q", code, err, log)
		}
	}
	if _, log, err := r.c.ModuleLoad([]byte("no PTX")); err == nil || log == "" {
		t.Errorf("what is no PTX: %v, log %q", err, log)
	}
	m, _, err := r.c.ModuleLoad(ptx)
	r.must(err)
	var e *driver.Error
	if _, err := r.c.ModuleFunction(m, "other"); !errors.As(err, &e) || e.Code != 500 {
		t.Errorf("a kernel that is not there: %v", err)
	}
	if _, _, err := r.c.ModuleLoad(nil); err == nil {
		t.Error("no PTX was accepted")
	}
}
