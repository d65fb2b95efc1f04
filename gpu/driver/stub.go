//go:build !cgo || !linux

package driver

import (
	"fmt"
	"unsafe"
)

// errStub is why nothing works in this build.
var errStub = fmt.Errorf("%w: this build cannot call GPU libraries (it needs Linux and cgo)", ErrUnavailable)

// Driver is libcuda, initialised. In this build there is none.
type Driver struct{}

// Context is the primary context of a device.
type Context struct{}

// CuFile is libcufile.
type CuFile struct{}

// Open returns ErrUnavailable.
func Open(o Options) (*Driver, error) { return nil, errStub }

// Missing returns nothing.
func (*Driver) Missing() []string { return nil }

// Version returns ErrUnavailable.
func (*Driver) Version() (int, error) { return 0, errStub }

// DeviceCount returns ErrUnavailable.
func (*Driver) DeviceCount() (int, error) { return 0, errStub }

// Device returns ErrUnavailable.
func (*Driver) Device(ordinal int) (DeviceInfo, error) { return DeviceInfo{}, errStub }

// RetainPrimary returns ErrUnavailable.
func (*Driver) RetainPrimary(ordinal int) (*Context, error) { return nil, errStub }

// Ordinal returns nothing.
func (*Context) Ordinal() int { return 0 }

// Release returns ErrUnavailable.
func (*Context) Release() error { return errStub }

// MemAlloc returns ErrUnavailable.
func (*Context) MemAlloc(n int64) (DevicePtr, error) { return 0, errStub }

// MemFree returns ErrUnavailable.
func (*Context) MemFree(p DevicePtr) error { return errStub }

// MemInfo returns ErrUnavailable.
func (*Context) MemInfo() (free, total int64, err error) { return 0, 0, errStub }

// HostRegister returns ErrUnavailable.
func (*Context) HostRegister(p unsafe.Pointer, n int64) error { return errStub }

// HostUnregister returns ErrUnavailable.
func (*Context) HostUnregister(p unsafe.Pointer) error { return errStub }

// SetSyncMemops returns ErrUnavailable.
func (*Context) SetSyncMemops(p DevicePtr) error { return errStub }

// FlushWrites returns ErrUnavailable.
func (*Context) FlushWrites() error { return errStub }

// CopyHtoDAsync returns ErrUnavailable.
func (*Context) CopyHtoDAsync(dst DevicePtr, src unsafe.Pointer, n int64, s Stream) error {
	return errStub
}

// CopyDtoHAsync returns ErrUnavailable.
func (*Context) CopyDtoHAsync(dst unsafe.Pointer, src DevicePtr, n int64, s Stream) error {
	return errStub
}

// CopyDtoDAsync returns ErrUnavailable.
func (*Context) CopyDtoDAsync(dst, src DevicePtr, n int64, s Stream) error { return errStub }

// MemsetD8Async returns ErrUnavailable.
func (*Context) MemsetD8Async(p DevicePtr, v byte, n int64, s Stream) error { return errStub }

// StreamCreate returns ErrUnavailable.
func (*Context) StreamCreate() (Stream, error) { return 0, errStub }

// StreamDestroy returns ErrUnavailable.
func (*Context) StreamDestroy(s Stream) error { return errStub }

// StreamQuery returns ErrUnavailable.
func (*Context) StreamQuery(s Stream) (done bool, err error) { return false, errStub }

// StreamSynchronize returns ErrUnavailable.
func (*Context) StreamSynchronize(s Stream) error { return errStub }

// StreamWaitEvent returns ErrUnavailable.
func (*Context) StreamWaitEvent(s Stream, e Event) error { return errStub }

// EventCreate returns ErrUnavailable.
func (*Context) EventCreate() (Event, error) { return 0, errStub }

// EventDestroy returns ErrUnavailable.
func (*Context) EventDestroy(e Event) error { return errStub }

// EventRecord returns ErrUnavailable.
func (*Context) EventRecord(e Event, s Stream) error { return errStub }

// EventQuery returns ErrUnavailable.
func (*Context) EventQuery(e Event) (done bool, err error) { return false, errStub }

// EventSynchronize returns ErrUnavailable.
func (*Context) EventSynchronize(e Event) error { return errStub }

// ModuleLoad returns ErrUnavailable.
func (*Context) ModuleLoad(ptx []byte) (m Module, log string, err error) { return 0, "", errStub }

// ModuleUnload returns ErrUnavailable.
func (*Context) ModuleUnload(m Module) error { return errStub }

// ModuleFunction returns ErrUnavailable.
func (*Context) ModuleFunction(m Module, name string) (Function, error) { return 0, errStub }

// Launch returns ErrUnavailable.
func (*Context) Launch(f Function, grid, block [3]uint32, param []byte, s Stream) error {
	return errStub
}

// CuFile returns ErrUnavailable.
func (*Driver) CuFile() (*CuFile, error) { return nil, errStub }

// Missing returns nothing.
func (*CuFile) Missing() []string { return nil }

// DriverOpen returns ErrUnavailable.
func (*CuFile) DriverOpen(c *Context) error { return errStub }

// DriverClose returns ErrUnavailable.
func (*CuFile) DriverClose(c *Context) error { return errStub }

// Version returns ErrUnavailable.
func (*CuFile) Version() (int, error) { return 0, errStub }

// Properties returns ErrUnavailable.
func (*CuFile) Properties() (Properties, error) { return Properties{}, errStub }

// Parameter returns ErrUnavailable.
func (*CuFile) Parameter(p BoolParameter) (bool, error) { return false, errStub }

// SetParameter returns ErrUnavailable.
func (*CuFile) SetParameter(p BoolParameter, on bool) error { return errStub }

// SetStringParameter returns ErrUnavailable.
func (*CuFile) SetStringParameter(p StringParameter, value string) error { return errStub }

// SetStatsLevel returns ErrUnavailable.
func (*CuFile) SetStatsLevel(level int) error { return errStub }

// StatsStart returns ErrUnavailable.
func (*CuFile) StatsStart() error { return errStub }

// StatsStop returns ErrUnavailable.
func (*CuFile) StatsStop() error { return errStub }

// StatsReset returns ErrUnavailable.
func (*CuFile) StatsReset() error { return errStub }

// RouteCounters returns ErrUnavailable.
func (*CuFile) RouteCounters(uuid [16]byte) (RouteCounters, error) { return RouteCounters{}, errStub }

// HandleRegister returns ErrUnavailable.
func (*CuFile) HandleRegister(c *Context, fd int) (Handle, error) { return 0, errStub }

// HandleDeregister returns ErrUnavailable.
func (*CuFile) HandleDeregister(c *Context, h Handle) error { return errStub }

// BufRegister returns ErrUnavailable.
func (*CuFile) BufRegister(c *Context, p DevicePtr, n int64) error { return errStub }

// BufDeregister returns ErrUnavailable.
func (*CuFile) BufDeregister(c *Context, p DevicePtr) error { return errStub }

// Read returns ErrUnavailable.
func (*CuFile) Read(c *Context, h Handle, base DevicePtr, n, fileOffset, bufOffset int64) (int64, error) {
	return 0, errStub
}
