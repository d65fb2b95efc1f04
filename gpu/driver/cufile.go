//go:build cgo && linux

package driver

/*
#include "shim.h"
#include <stdlib.h>
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"
)

// CuFile is libcufile. Calls that touch a GPU take a context and make it current
// for their time; nil makes none current. Success codes of this library prove
// neither the way that bytes took nor the bytes: see package gpu.
type CuFile struct {
	t *C.ss_cuda
	f *C.ss_cufile
}

// CuFile loads libcufile. It returns ErrUnavailable and the reason where there is
// none. Nothing is opened yet.
func (d *Driver) CuFile() (*CuFile, error) {
	f, err := loadCuFile(d.options.cuFile())
	if err != nil {
		return nil, err
	}
	return &CuFile{t: d.t, f: f}, nil
}

// Missing returns the functions that the installed libcufile lacks.
func (f *CuFile) Missing() []string {
	return absent(func(i C.int, there *C.int) *C.char { return C.ss_cufile_symbol(f.f, i, there) })
}

// of is the context's C handle; 0 for none.
func (f *CuFile) of(c *Context) C.uintptr_t {
	if c == nil {
		return 0
	}
	return c.ctx
}

// DriverOpen starts cuFile in this process. Another library of the process may
// have done so before: the configuration is then that library's.
func (f *CuFile) DriverOpen(c *Context) error {
	return check(C.ss_file_open(f.f, f.t, f.of(c)))
}

// DriverClose ends cuFile in this process.
func (f *CuFile) DriverClose(c *Context) error {
	return check(C.ss_file_close(f.f, f.t, f.of(c)))
}

// Version returns 1000 x major + 10 x minor: 1190 is 1.19. A library without the
// function is older than 1.8, and 1070.
func (f *CuFile) Version() (int, error) {
	r := C.ss_file_version(f.f)
	err := check(r)
	if errors.Is(err, ErrMissingSymbol) {
		return versionOld, nil
	}
	return int(r.value), err
}

// Properties returns what cuFile says of itself, after DriverOpen.
func (f *CuFile) Properties() (Properties, error) {
	buf := C.calloc(1, propertiesRoom)
	if buf == nil {
		return Properties{}, syscall.ENOMEM
	}
	defer C.free(buf)
	if err := check(C.ss_file_properties(f.f, buf)); err != nil {
		return Properties{}, err
	}
	return decodeProperties(unsafe.Slice((*byte)(buf), propertiesBytes)), nil
}

// Parameter reads a setting. Before DriverOpen it is what was asked for, after it
// what holds.
func (f *CuFile) Parameter(p BoolParameter) (bool, error) {
	r := C.ss_file_parameter(f.f, C.int(p))
	return r.value != 0, check(r)
}

// SetParameter sets one. It must come before DriverOpen, and fails with 5026
// where some library opened cuFile already.
func (f *CuFile) SetParameter(p BoolParameter, on bool) error {
	return check(C.ss_file_set_parameter(f.f, C.int(p), C.bool(on)))
}

// SetStringParameter is SetParameter for text. cuFile 1.20 takes LogDir, returns
// success and writes cufile.log into the working directory all the same; it does
// heed CUFILE_LOGFILE_PATH. So LogDir sets that variable of the process too, unless
// the host application has.
func (f *CuFile) SetStringParameter(p StringParameter, value string) error {
	text := C.CString(value)
	defer C.free(unsafe.Pointer(text))
	if err := check(C.ss_file_set_string(f.f, C.int(p), text)); err != nil || p != LogDir {
		return err
	}
	const variable = "CUFILE_LOGFILE_PATH"
	if os.Getenv(variable) != "" {
		return nil
	}
	return os.Setenv(variable, filepath.Join(value, "cufile.log")) // sets C's environment as well
}

// SetStatsLevel chooses how much cuFile counts, 0 to 3; RouteCounters need 3. It
// must come before DriverOpen.
func (f *CuFile) SetStatsLevel(level int) error {
	return check(C.ss_file_stats_level(f.f, C.int(level)))
}

// StatsStart starts counting.
func (f *CuFile) StatsStart() error { return check(C.ss_file_stats_start(f.f)) }

// StatsStop stops it. A process that ends with it on may crash at exit.
func (f *CuFile) StatsStop() error { return check(C.ss_file_stats_stop(f.f)) }

// StatsReset sets all counters to zero.
func (f *CuFile) StatsReset() error { return check(C.ss_file_stats_reset(f.f)) }

// RouteCounters returns the counters of one GPU, or ErrCounters where the
// library has none or their layout does not check out.
func (f *CuFile) RouteCounters(uuid [16]byte) (RouteCounters, error) {
	version, err := f.Version()
	if err != nil {
		return RouteCounters{}, err
	}
	if statsLayouts(version) == nil {
		return decodeStats(nil, version, uuid)
	}
	buf := C.calloc(1, statsRoom)
	if buf == nil {
		return RouteCounters{}, syscall.ENOMEM
	}
	defer C.free(buf)
	if err := check(C.ss_file_stats(f.f, buf)); err != nil {
		return RouteCounters{}, fmt.Errorf("%w: %w", ErrCounters, err)
	}
	return decodeStats(unsafe.Slice((*byte)(buf), statsRoom), version, uuid)
}

// HandleRegister registers an open file. The descriptor must stay open until
// HandleDeregister.
func (f *CuFile) HandleRegister(c *Context, fd int) (Handle, error) {
	r := C.ss_file_register(f.f, f.t, f.of(c), C.int(fd))
	if err := check(r); err != nil {
		return 0, err
	}
	if r.value == 0 {
		return 0, fmt.Errorf("driver: cuFileHandleRegister: success without a handle; %s", adviceHost)
	}
	return Handle(r.value), nil
}

// HandleDeregister undoes it. The library gives no result; an error is one of the
// context.
func (f *CuFile) HandleDeregister(c *Context, h Handle) error {
	return check(C.ss_file_deregister(f.f, f.t, f.of(c), C.uintptr_t(h)))
}

// BufRegister maps n bytes of device memory for reads, from a base that Read must
// then be given. It takes BAR1 space and time: register a few long buffers. The
// memory must not be freed before BufDeregister.
func (f *CuFile) BufRegister(c *Context, p DevicePtr, n int64) error {
	if n <= 0 {
		return fmt.Errorf("driver: %d bytes of device memory to register", n)
	}
	return check(C.ss_buf_register(f.f, f.t, f.of(c), C.ss_devptr(p), C.size_t(n)))
}

// BufDeregister undoes it.
func (f *CuFile) BufDeregister(c *Context, p DevicePtr) error {
	return check(C.ss_buf_deregister(f.f, f.t, f.of(c), C.ss_devptr(p)))
}

// Read reads n bytes of the file at fileOffset into device memory at base +
// bufOffset, and returns when they are there, as far as the library knows. It may
// read fewer and return no error: the caller decides what that means. It is
// ordered with no stream, and cannot be given up.
func (f *CuFile) Read(c *Context, h Handle, base DevicePtr, n, fileOffset, bufOffset int64) (int64, error) {
	if n < 0 || fileOffset < 0 || bufOffset < 0 {
		return 0, fmt.Errorf("driver: cuFileRead of %d bytes at %d to %d", n, fileOffset, bufOffset)
	}
	r := C.ss_file_read(f.f, f.t, f.of(c), C.uintptr_t(h), C.ss_devptr(base), C.size_t(n), C.off_t(fileOffset), C.off_t(bufOffset))
	if r.code == C.SS_MISSING {
		return 0, missing(C.GoString(r.call))
	}
	got, err := decodeRead(int64(r.n), syscall.Errno(r.saved_errno), n)
	if err == nil && r.code != 0 {
		err = cudaError(C.GoString(r.call), int(r.code))
	}
	if err != nil {
		return 0, err
	}
	return got, nil
}
