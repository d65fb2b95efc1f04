//go:build cgo && linux

package driver

/*
#include "shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"bytes"
	"errors"
	"fmt"
	"unsafe"
)

// logBytes bounds what the compiler of the driver may say about a module.
const logBytes = 8 << 10

// ModuleLoad hands PTX to the driver, which compiles it for the device. log is
// what its compiler said about errors; it may be empty.
func (c *Context) ModuleLoad(ptx []byte) (m Module, log string, err error) {
	if len(ptx) == 0 || bytes.IndexByte(ptx, 0) >= 0 {
		return 0, "", errors.New("driver: PTX is text without a zero byte, and not empty")
	}
	text := C.CString(string(ptx)) // ends in a zero byte, as the driver needs it
	defer C.free(unsafe.Pointer(text))
	buf := (*C.char)(C.calloc(1, logBytes))
	if buf == nil {
		return 0, "", errors.New("driver: out of memory")
	}
	defer C.free(unsafe.Pointer(buf))
	r := C.ss_module_load(c.t, c.ctx, text, buf, logBytes-1)
	return Module(r.value), C.GoString(buf), check(r)
}

// ModuleUnload gives a module back.
func (c *Context) ModuleUnload(m Module) error {
	return check(C.ss_module_unload(c.t, c.ctx, C.uintptr_t(m)))
}

// ModuleFunction finds a kernel by its name.
func (c *Context) ModuleFunction(m Module, name string) (Function, error) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	r := C.ss_module_function(c.t, c.ctx, C.uintptr_t(m), text)
	return Function(r.value), check(r)
}

// Launch puts a kernel into the stream. Its one parameter is a struct, given as
// bytes; it is copied before Launch returns.
func (c *Context) Launch(f Function, grid, block [3]uint32, param []byte, s Stream) error {
	if len(param) == 0 || len(param) > LaunchParamMax {
		return fmt.Errorf("driver: kernel parameter of %d bytes, must be 1 to %d", len(param), LaunchParamMax)
	}
	return check(C.ss_launch(c.t, c.ctx, C.uintptr_t(f), dim(grid), dim(block),
		unsafe.Pointer(&param[0]), C.size_t(len(param)), C.uintptr_t(s)))
}

func dim(d [3]uint32) C.ss_dim { return C.ss_dim{C.uint(d[0]), C.uint(d[1]), C.uint(d[2])} }
