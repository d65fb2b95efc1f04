//go:build cgo && linux

package driver

/*
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Context is the primary context of a device, the one that the host application
// uses as well. Its methods may be called from any goroutine.
type Context struct {
	t        *C.ss_cuda
	ordinal  int
	device   C.int
	ctx      C.uintptr_t
	released atomic.Bool
}

// RetainPrimary takes a reference to the primary context of a device and creates
// it if nobody has. Its flags are left to the host application.
func (d *Driver) RetainPrimary(ordinal int) (*Context, error) {
	dev := C.ss_device(d.t, C.int(ordinal))
	if err := check(dev); err != nil {
		return nil, fmt.Errorf("device %d: %w", ordinal, err)
	}
	r := C.ss_retain(d.t, C.int(dev.value))
	if err := check(r); err != nil {
		return nil, fmt.Errorf("device %d: %w", ordinal, err)
	}
	return &Context{t: d.t, ordinal: ordinal, device: C.int(dev.value), ctx: C.uintptr_t(r.value)}, nil
}

// Ordinal returns the number of the context's device.
func (c *Context) Ordinal() int { return c.ordinal }

// Release gives the reference back; once, further calls do nothing. Nothing of
// this context may be used after it.
func (c *Context) Release() error {
	if c.released.Swap(true) {
		return nil
	}
	return check(C.ss_release(c.t, c.device))
}

// MemAlloc allocates n bytes of device memory, aligned to 256 bytes at least.
func (c *Context) MemAlloc(n int64) (DevicePtr, error) {
	if n <= 0 {
		return 0, fmt.Errorf("driver: %d bytes of device memory asked for", n)
	}
	r := C.ss_mem_alloc(c.t, c.ctx, C.size_t(n))
	return DevicePtr(r.value), check(r)
}

// MemFree gives device memory back. The device waits for its work first.
func (c *Context) MemFree(p DevicePtr) error {
	return check(C.ss_mem_free(c.t, c.ctx, C.ss_devptr(p)))
}

// MemInfo returns the device's memory in bytes.
func (c *Context) MemInfo() (free, total int64, err error) {
	r := C.ss_mem_info(c.t, c.ctx)
	return int64(r.value), int64(r.second), check(r)
}

// HostRegister pins n bytes of host memory for all contexts, so that copies from
// and to it are asynchronous. The memory must come from mmap, start on a page and
// stay mapped until HostUnregister.
func (c *Context) HostRegister(p unsafe.Pointer, n int64) error {
	if n <= 0 {
		return fmt.Errorf("driver: %d bytes of host memory to pin", n)
	}
	return check(C.ss_host_register(c.t, c.ctx, C.uintptr_t(uintptr(p)), C.size_t(n)))
}

// HostUnregister undoes HostRegister; p is the same address.
func (c *Context) HostUnregister(p unsafe.Pointer) error {
	return check(C.ss_host_unregister(c.t, c.ctx, C.uintptr_t(uintptr(p))))
}

// SetSyncMemops makes memory operations on an allocation synchronous, as memory
// needs that other devices write to (GPUDirect RDMA guide).
func (c *Context) SetSyncMemops(p DevicePtr) error {
	return check(C.ss_sync_memops(c.t, c.ctx, C.ss_devptr(p)))
}

// FlushWrites makes what other devices wrote into this device's memory visible to
// its later kernels. It is needed where [Attributes.WritesOrdering] is below
// OrderingOwner, and works where FlushWritesOptions has FlushHost.
func (c *Context) FlushWrites() error {
	return check(C.ss_flush_writes(c.t, c.ctx))
}
