//go:build cgo && linux

package driver

/*
#include "shim.h"
*/
import "C"

import (
	"fmt"
	"unsafe"
)

// The copies below return before they are done. Until the stream has got past
// them, as an event or a synchronisation tells, the source may not change and the
// destination may not be looked at, nor may either be freed.

// CopyHtoDAsync copies n bytes from pinned host memory to the device.
func (c *Context) CopyHtoDAsync(dst DevicePtr, src unsafe.Pointer, n int64, s Stream) error {
	if n < 0 {
		return negative(n)
	}
	return check(C.ss_h2d(c.t, c.ctx, C.ss_devptr(dst), C.uintptr_t(uintptr(src)), C.size_t(n), C.uintptr_t(s)))
}

// CopyDtoHAsync copies n bytes from the device to pinned host memory.
func (c *Context) CopyDtoHAsync(dst unsafe.Pointer, src DevicePtr, n int64, s Stream) error {
	if n < 0 {
		return negative(n)
	}
	return check(C.ss_d2h(c.t, c.ctx, C.uintptr_t(uintptr(dst)), C.ss_devptr(src), C.size_t(n), C.uintptr_t(s)))
}

// CopyDtoDAsync copies n bytes within the device.
func (c *Context) CopyDtoDAsync(dst, src DevicePtr, n int64, s Stream) error {
	if n < 0 {
		return negative(n)
	}
	return check(C.ss_d2d(c.t, c.ctx, C.ss_devptr(dst), C.ss_devptr(src), C.size_t(n), C.uintptr_t(s)))
}

// MemsetD8Async sets n bytes of device memory to v.
func (c *Context) MemsetD8Async(p DevicePtr, v byte, n int64, s Stream) error {
	if n < 0 {
		return negative(n)
	}
	return check(C.ss_memset(c.t, c.ctx, C.ss_devptr(p), C.uchar(v), C.size_t(n), C.uintptr_t(s)))
}

// negative refuses a length that would turn into a huge size_t.
func negative(n int64) error { return fmt.Errorf("driver: %d bytes to copy", n) }
