package gpu

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/aligned"
)

// scratchBytes is what a lane has of pinned and of device memory, each: for
// tables and answers of the kernel, or for bytes copied back to be summed by
// the processor. Where the driver does not give as much it is less, down to
// scratchBytesMin, which holds a chunk.
const (
	scratchBytes    = 1 << 20
	scratchBytesMin = 64 << 10
)

// scratch is the memory that a lane needs to verify. It is apart from the pools
// so that who verifies never waits for who wants to be verified. Both parts are
// made when they are first needed, and have only one user.
type scratch struct {
	host        *aligned.Buffer
	device      driver.DevicePtr
	deviceBytes int64
}

// hostMemory is the pinned part.
func (s *scratch) hostMemory(l *lane) ([]byte, error) {
	var err error
	for n := scratchBytes; s.host == nil && n >= scratchBytesMin; n /= 2 {
		if s.host, err = l.pin(n); err != nil && isLost(err) {
			return nil, err
		}
	}
	if s.host == nil {
		return nil, fmt.Errorf("%w: %d bytes to verify with: %w", ErrPinning, scratchBytesMin, err)
	}
	return s.host.Bytes(), nil
}

// pin maps and registers memory for the lane.
func (l *lane) pin(sizeBytes int) (*aligned.Buffer, error) {
	buf, err := aligned.Alloc(sizeBytes)
	if err != nil {
		return nil, err
	}
	base := unsafe.Pointer(unsafe.SliceData(buf.Bytes()))
	err = l.do("cuMemHostRegister", func() error { return l.d.c.HostRegister(base, int64(sizeBytes)) })
	if err == nil {
		return buf, nil
	}
	if !isLost(err) { // else it may be pinned all the same
		buf.Free()
	}
	return nil, err
}

// deviceMemory is the part in the device.
func (s *scratch) deviceMemory(l *lane) (driver.DevicePtr, error) {
	var err error
	for n := int64(scratchBytes); s.device == 0 && n >= scratchBytesMin; n /= 2 {
		var p driver.DevicePtr
		err = l.do("cuMemAlloc", func() (err error) { p, err = l.d.c.MemAlloc(n); return err })
		if err == nil {
			s.device, s.deviceBytes = p, n
		} else if isLost(err) {
			return 0, err
		}
	}
	if s.device == 0 {
		return 0, fmt.Errorf("gpu: %d bytes of device memory to verify with: %w", scratchBytesMin, err)
	}
	return s.device, nil
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
