package gpu

import (
	"errors"
	"unsafe"

	"github.com/sealstone/sealstone/gpu/driver"
)

// cuda is what a Device asks of the primary context of its GPU; a
// *driver.Context is one. Tests of the pools put a small fake in its place.
type cuda interface {
	Release() error
	MemAlloc(n int64) (driver.DevicePtr, error)
	MemFree(p driver.DevicePtr) error
	HostRegister(p unsafe.Pointer, n int64) error
	HostUnregister(p unsafe.Pointer) error
	StreamCreate() (driver.Stream, error)
	StreamDestroy(s driver.Stream) error
	StreamQuery(s driver.Stream) (bool, error)
	EventCreate() (driver.Event, error)
	EventDestroy(e driver.Event) error
	EventRecord(e driver.Event, s driver.Stream) error
	EventQuery(e driver.Event) (bool, error)
	CopyHtoDAsync(dst driver.DevicePtr, src unsafe.Pointer, n int64, s driver.Stream) error
	CopyDtoHAsync(dst unsafe.Pointer, src driver.DevicePtr, n int64, s driver.Stream) error
	CopyDtoDAsync(dst, src driver.DevicePtr, n int64, s driver.Stream) error
	MemsetD8Async(p driver.DevicePtr, v byte, n int64, s driver.Stream) error
	SetSyncMemops(p driver.DevicePtr) error
	FlushWrites() error
}

var _ cuda = (*driver.Context)(nil)

func isLost(err error) bool { return errors.Is(err, ErrDeviceLost) }
