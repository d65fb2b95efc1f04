package gpu

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/aligned"
)

const (
	// scratchHostBytes is a lane's pinned memory: for tables and answers of the
	// kernel, or for bytes copied back to be summed by the processor.
	scratchHostBytes = 1 << 20
	// scratchDeviceBytes is a lane's device memory, for tables and answers.
	scratchDeviceBytes = 1 << 20
)

// scratch is the memory that a lane needs to verify. It is apart from the pools
// so that who verifies never waits for who wants to be verified. Both parts are
// made when they are first needed, and have only one user.
type scratch struct {
	host   *aligned.Buffer
	device driver.DevicePtr
}

// hostMemory is the pinned part.
func (s *scratch) hostMemory(l *lane) ([]byte, error) {
	if s.host != nil {
		return s.host.Bytes(), nil
	}
	buf, err := aligned.Alloc(scratchHostBytes)
	if err != nil {
		return nil, err
	}
	base := unsafe.Pointer(unsafe.SliceData(buf.Bytes()))
	if err := l.do("cuMemHostRegister", func() error { return l.d.c.HostRegister(base, scratchHostBytes) }); err != nil {
		if !isLost(err) { // else it may be pinned all the same
			buf.Free()
		}
		return nil, fmt.Errorf("%w: %d bytes to verify with: %w", ErrPinning, scratchHostBytes, err)
	}
	s.host = buf
	return buf.Bytes(), nil
}

// deviceMemory is the part in the device.
func (s *scratch) deviceMemory(l *lane) (driver.DevicePtr, error) {
	if s.device != 0 {
		return s.device, nil
	}
	var p driver.DevicePtr
	err := l.do("cuMemAlloc", func() (err error) { p, err = l.d.c.MemAlloc(scratchDeviceBytes); return err })
	if err != nil {
		return 0, fmt.Errorf("gpu: %d bytes of device memory to verify with: %w", scratchDeviceBytes, err)
	}
	s.device = p
	return p, nil
}

// free gives both parts back. The lane's goroutine is gone.
func (s *scratch) free(d *Device) error {
	var errs []error
	if s.host != nil {
		base := unsafe.Pointer(unsafe.SliceData(s.host.Bytes()))
		if err := d.guard("cuMemHostUnregister", func() error { return d.c.HostUnregister(base) }); err != nil {
			errs = append(errs, err)
		} else {
			s.host.Free()
		}
		s.host = nil
	}
	if s.device != 0 {
		p := s.device
		errs = append(errs, d.guard("cuMemFree", func() error { return d.c.MemFree(p) }))
		s.device = 0
	}
	return errors.Join(errs...)
}
