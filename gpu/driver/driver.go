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

// Driver is libcuda, initialised. It may be used from any goroutine and has
// nothing to close: the library stays.
type Driver struct {
	t       *C.ss_cuda
	options Options
}

// Open loads libcuda and initialises it. Every failure is ErrUnavailable: the
// library is missing, lacks what nothing works without, or its cuInit refused,
// in which case the error is an [Error] too (100: no GPU is visible). libcufile
// is left to [Driver.CuFile].
func Open(o Options) (*Driver, error) {
	t, err := loadCUDA(o.cuda())
	if err != nil {
		return nil, err
	}
	d := &Driver{t: t, options: o}
	if err := d.essential(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, o.cuda(), err)
	}
	if err := check(C.ss_init(t)); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrUnavailable, o.cuda(), err)
	}
	return d, nil
}

// essential says which function is missing that every use needs.
func (d *Driver) essential() error {
	gone := map[string]bool{}
	for _, name := range d.Missing() {
		gone[name] = true
	}
	for _, name := range []string{"cuInit", "cuDeviceGetCount", "cuDeviceGet", "cuDevicePrimaryCtxRetain",
		"cuDevicePrimaryCtxRelease_v2", "cuCtxPushCurrent_v2", "cuCtxPopCurrent_v2"} {
		if gone[name] {
			return missing(name)
		}
	}
	return nil
}

// Missing returns the functions that the installed libcuda lacks.
func (d *Driver) Missing() []string {
	return absent(func(i C.int, there *C.int) *C.char { return C.ss_cuda_symbol(d.t, i, there) })
}

// Version returns the newest CUDA version that the driver supports, as 1000 x
// major + 10 x minor: 13000 is 13.0.
func (d *Driver) Version() (int, error) {
	r := C.ss_version(d.t)
	return int(r.value), check(r)
}

// DeviceCount returns how many devices this process may use.
func (d *Driver) DeviceCount() (int, error) {
	r := C.ss_device_count(d.t)
	return int(r.value), check(r)
}

// Numbers of CUdevice_attribute (cuda.h).
const (
	attrIntegrated     = 18
	attrUnified        = 41
	attrMajor          = 75
	attrMinor          = 76
	attrHostRegister   = 99
	attrDirectRDMA     = 116
	attrFlushOptions   = 117
	attrWritesOrdering = 118
)

// Numbers of CUresult that are more than failures.
const (
	codeInvalidValue = 1
	codeNotReady     = 600
)

// textMax holds any device name or PCI address.
const textMax = 256

// Device describes a device. It takes no context and changes nothing.
func (d *Driver) Device(ordinal int) (DeviceInfo, error) {
	info := DeviceInfo{Ordinal: ordinal}
	r := C.ss_device(d.t, C.int(ordinal))
	if err := check(r); err != nil {
		return info, fmt.Errorf("device %d: %w", ordinal, err)
	}
	dev := C.int(r.value)
	text := make([]C.char, textMax)
	if err := check(C.ss_device_name(d.t, dev, &text[0], textMax)); err != nil {
		return info, fmt.Errorf("device %d: %w", ordinal, err)
	}
	info.Name = C.GoString(&text[0])
	if err := check(C.ss_device_bus(d.t, dev, &text[0], textMax)); err != nil {
		return info, fmt.Errorf("device %d: %w", ordinal, err)
	}
	info.PCIBusID = C.GoString(&text[0])
	if err := check(C.ss_device_uuid(d.t, dev, (*C.uchar)(unsafe.Pointer(&info.UUID[0])))); err != nil {
		return info, fmt.Errorf("device %d: %w", ordinal, err)
	}
	r = C.ss_device_memory(d.t, dev)
	if err := check(r); err != nil {
		return info, fmt.Errorf("device %d: %w", ordinal, err)
	}
	info.TotalBytes = int64(r.value)
	if err := d.attributes(dev, &info); err != nil {
		return info, fmt.Errorf("device %d: %w", ordinal, err)
	}
	return info, nil
}

// attributes fills in those. An older driver refuses a newer attribute with
// CUDA_ERROR_INVALID_VALUE, which leaves it at zero.
func (d *Driver) attributes(dev C.int, info *DeviceInfo) error {
	var integrated, unified, register, rdma int
	for _, a := range []struct {
		number C.int
		to     *int
	}{
		{attrMajor, &info.Major}, {attrMinor, &info.Minor},
		{attrIntegrated, &integrated}, {attrUnified, &unified}, {attrHostRegister, &register},
		{attrDirectRDMA, &rdma}, {attrFlushOptions, &info.Attributes.FlushWritesOptions},
		{attrWritesOrdering, &info.Attributes.WritesOrdering},
	} {
		r := C.ss_device_attribute(d.t, dev, a.number)
		if r.code == codeInvalidValue {
			continue
		}
		if err := check(r); err != nil {
			return err
		}
		*a.to = int(int64(r.value))
	}
	info.Attributes.Integrated = integrated != 0
	info.Attributes.UnifiedAddressing = unified != 0
	info.Attributes.HostRegisterSupported = register != 0
	info.Attributes.GPUDirectRDMASupported = rdma != 0
	return nil
}
