package check

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"unsafe"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/aligned"
)

// bench is the memory and the stream of a measurement, freed by close.
type bench struct {
	c      *driver.Context
	stream driver.Stream
	free   []func() error
}

func newBench(c *driver.Context) (*bench, error) {
	b := &bench{c: c}
	var err error
	if b.stream, err = c.StreamCreate(); err != nil {
		return nil, err
	}
	b.free = append(b.free, func() error { return c.StreamDestroy(b.stream) })
	return b, nil
}

// close waits for the stream and frees the last thing first. It stops at the
// first error: what is used by a device that does not answer stays.
func (b *bench) close() error {
	if err := b.sync(); err != nil {
		return err
	}
	for i := len(b.free) - 1; i >= 0; i-- {
		if err := b.free[i](); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) sync() error { return b.c.StreamSynchronize(b.stream) }

// device allocates device memory.
func (b *bench) device(n int64) (driver.DevicePtr, error) {
	p, err := b.c.MemAlloc(n)
	if err != nil {
		return 0, fmt.Errorf("%d MiB of device memory: %w", n>>20, err)
	}
	b.free = append(b.free, func() error { return b.c.MemFree(p) })
	return p, nil
}

// host maps host memory that is not pinned.
func (b *bench) host(n int64) ([]byte, error) {
	buf, err := aligned.Alloc(int(n))
	if err != nil {
		return nil, fmt.Errorf("%d MiB of host memory: %w", n>>20, err)
	}
	b.free = append(b.free, func() error { buf.Free(); return nil })
	return buf.Bytes(), nil
}

// pinned maps host memory and pins it.
func (b *bench) pinned(n int64) ([]byte, error) {
	mem, err := b.host(n)
	if err != nil {
		return nil, err
	}
	if err := b.c.HostRegister(pointer(mem), int64(cap(mem))); err != nil {
		return nil, fmt.Errorf("pinning %d MiB: %w", n>>20, err)
	}
	b.free = append(b.free, func() error { return b.c.HostUnregister(pointer(mem)) })
	return mem, nil
}

// toDevice copies and waits.
func (b *bench) toDevice(dst driver.DevicePtr, src []byte) error {
	return errors.Join(b.c.CopyHtoDAsync(dst, pointer(src), int64(len(src)), b.stream), b.sync())
}

// toHost copies and waits.
func (b *bench) toHost(dst []byte, src driver.DevicePtr) error {
	return errors.Join(b.c.CopyDtoHAsync(pointer(dst), src, int64(len(dst)), b.stream), b.sync())
}

// fitting are the sizes of which device memory has room for twice as much, and
// an error that names the first other one.
func fitting(c *driver.Context, sizes []int64) ([]int64, error) {
	free, _, err := c.MemInfo()
	if err != nil {
		return nil, err
	}
	var fit []int64
	for _, n := range sizes {
		if 2*n > free {
			return fit, fmt.Errorf("%d MiB of device memory are free, too few for %d MiB and more", free>>20, n>>20)
		}
		fit = append(fit, n)
	}
	return fit, nil
}

// fill writes random bytes.
func fill(p []byte) {
	r := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	for ; len(p) >= 8; p = p[8:] {
		binary.LittleEndian.PutUint64(p, r.Uint64())
	}
	for i := range p {
		p[i] = byte(r.Uint64())
	}
}

// pointer is the address of memory outside the Go heap.
func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
