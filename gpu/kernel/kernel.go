package kernel

import (
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/sealstone/sealstone/gpu/driver"
)

// Kernel is the verify kernel, loaded into a context and proven there. It may be
// used from any goroutine, with a job for each.
type Kernel struct {
	c             device
	module        driver.Module
	lanes, finish driver.Function
	proof         Proof
	closed        atomic.Bool
}

// Proof returns what was tried before the kernel was given out.
func (k *Kernel) Proof() Proof { return k.proof }

// Verify puts into the stream: clearing the job's device memory, copying its
// table there, both launches, and copying the answers back. It returns without
// waiting. After an error part of that may be in the stream already, and the
// answers are ErrUntrusted.
//
// The memory is cleared first so that a step that silently does nothing is seen:
// without the table all lengths are 0, without the first launch the
// accumulators, without the second the status words.
func (k *Kernel) Verify(s driver.Stream, j *Job) error {
	if k.closed.Load() {
		return ErrClosed
	}
	if j.ran {
		return fmt.Errorf("%w: it has run and was not reset", ErrInvalid)
	}
	n := len(j.pieces)
	if n == 0 {
		return fmt.Errorf("%w: no piece", ErrInvalid)
	}
	clear(j.results())
	p := j.params()
	if err := k.c.MemsetD8Async(j.device, 0, DeviceBytes(n), s); err != nil {
		return fmt.Errorf("kernel: clearing %d bytes: %w", DeviceBytes(n), err)
	}
	table := j.table()
	if err := k.c.CopyHtoDAsync(driver.DevicePtr(p.pieces), pointer(table), int64(len(table)), s); err != nil {
		return fmt.Errorf("kernel: copying the table of %d pieces: %w", n, err)
	}
	param := p.encode()
	if err := k.launch(k.lanes, n*lanes, param, s); err != nil {
		return fmt.Errorf("kernel: launching %s: %w", EntryLanes, err)
	}
	if err := k.launch(k.finish, n, param, s); err != nil {
		return fmt.Errorf("kernel: launching %s: %w", EntryFinish, err)
	}
	back := j.results()
	if err := k.c.CopyDtoHAsync(pointer(back), driver.DevicePtr(p.got), int64(len(back)), s); err != nil {
		return fmt.Errorf("kernel: copying the answers back: %w", err)
	}
	j.ran = true
	return nil
}

func (k *Kernel) launch(f driver.Function, threads int, param []byte, s driver.Stream) error {
	blocks := uint32((threads + ThreadsPerBlock - 1) / ThreadsPerBlock)
	return k.c.Launch(f, [3]uint32{blocks, 1, 1}, [3]uint32{ThreadsPerBlock, 1, 1}, param, s)
}

// Close unloads the kernel. No job may be running. Further calls do nothing.
func (k *Kernel) Close() error {
	if k.closed.Swap(true) {
		return nil
	}
	if err := k.c.ModuleUnload(k.module); err != nil {
		return fmt.Errorf("kernel: unloading: %w", err)
	}
	return nil
}

// pointer is the address of the first byte of memory outside the Go heap.
func pointer(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }
