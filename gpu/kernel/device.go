package kernel

import (
	"unsafe"

	"github.com/sealstone/sealstone/gpu/driver"
)

// device is what the kernel needs of a *driver.Context. The tests have one whose
// kernels lie.
type device interface {
	MemAlloc(n int64) (driver.DevicePtr, error)
	MemFree(p driver.DevicePtr) error
	HostRegister(p unsafe.Pointer, n int64) error
	HostUnregister(p unsafe.Pointer) error
	StreamCreate() (driver.Stream, error)
	StreamDestroy(s driver.Stream) error
	StreamSynchronize(s driver.Stream) error
	CopyHtoDAsync(dst driver.DevicePtr, src unsafe.Pointer, n int64, s driver.Stream) error
	CopyDtoHAsync(dst unsafe.Pointer, src driver.DevicePtr, n int64, s driver.Stream) error
	MemsetD8Async(p driver.DevicePtr, v byte, n int64, s driver.Stream) error
	ModuleLoad(ptx []byte) (m driver.Module, log string, err error)
	ModuleUnload(m driver.Module) error
	ModuleFunction(m driver.Module, name string) (driver.Function, error)
	Launch(f driver.Function, grid, block [3]uint32, param []byte, s driver.Stream) error
}

var _ device = (*driver.Context)(nil)
