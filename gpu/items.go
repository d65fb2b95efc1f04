package gpu

import (
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/sums"
)

// Span is a run of bytes in device memory.
type Span struct {
	Ptr         driver.DevicePtr
	LengthBytes int64
}

// Check is a chunk sum that bytes must have before they reach a caller. It
// covers 1 to [sums.ChunkBytes] bytes at an offset into Src or into the read.
type Check struct {
	OffsetBytes int64
	LengthBytes int64
	Sum         uint64
}

// Move copies bytes at an offset into Src, or into the read, to the caller's
// span once all checks of the item hold. Bytes without a Move, headers and
// padding, stay behind.
type Move struct {
	OffsetBytes int64
	Dst         Span
}

// CopyIn is one block on its way from pinned memory to the device.
type CopyIn struct {
	// Src lies within a [Pinned] of the same device. Its bytes are verified
	// by the caller.
	Src []byte
	// Checks are compared again on the device, with Options.VerifyOnDevice
	// and a proven kernel; else they are not looked at.
	Checks []Check
	Moves  []Move
	// Err is the answer: nil, and all of Moves are done; else their
	// destinations are as they were, but where it is [ErrDeviceLost].
	Err error
	// Verified says that the kernel compared Checks.
	Verified bool
}

// CopyOut is one block on its way from the device to pinned memory.
type CopyOut struct {
	// Src are copied one after the other. The caller has waited for what
	// writes to them.
	Src []Span
	// Dst lies within a [Pinned] and is as long as Src together.
	Dst []byte
	// PlaneBytes, if not nil, asks for Sums: Src is taken as planes of these
	// lengths, which together are its length.
	PlaneBytes []int64
	// Sums are the chunk sums of all planes in order.
	Sums []uint64
	// SumsOnDevice says that the kernel took Sums in device memory, so that
	// they vouch for the way to the host too; else they are those of Dst.
	SumsOnDevice bool
	// Err is the answer. On an error Dst holds anything.
	Err error
}

// FileID tells files apart: device and inode number as fstat(2) gives them.
type FileID struct{ Dev, Ino uint64 }

// DirectRead is one read from a file straight into device memory.
type DirectRead struct {
	// FD is open for reading; it is used during the call only and may have any
	// flags. File is what it refers to.
	FD   int
	File FileID
	// FileOffsetBytes and LengthBytes are multiples of 4 KiB.
	FileOffsetBytes int64
	LengthBytes     int64
	// Checks must cover every byte that Moves take.
	Checks []Check
	Moves  []Move
	// Err is the answer: nil, and Checks held and Moves are done; else the
	// destinations are as they were, but where it is [ErrDeviceLost].
	Err error
}

// validate holds the checks and moves of an item against the bytes there are.
func validate(lengthBytes int64, checks []Check, moves []Move) error {
	for i, c := range checks {
		if c.LengthBytes < 1 || c.LengthBytes > sums.ChunkBytes || !within(c.OffsetBytes, c.LengthBytes, lengthBytes) {
			return fmt.Errorf("%w: check %d of %d bytes at %d, in %d bytes", ErrInvalid, i, c.LengthBytes, c.OffsetBytes, lengthBytes)
		}
	}
	for i, m := range moves {
		if !within(m.OffsetBytes, m.Dst.LengthBytes, lengthBytes) {
			return fmt.Errorf("%w: move %d of %d bytes at %d, in %d bytes", ErrInvalid, i, m.Dst.LengthBytes, m.OffsetBytes, lengthBytes)
		}
		if err := m.Dst.validate(); err != nil {
			return fmt.Errorf("%w: move %d: %w", ErrInvalid, i, err)
		}
	}
	return nil
}

// validate refuses a span that cannot be one. Whether it is the caller's only
// the driver can tell.
func (s Span) validate() error {
	switch {
	case s.LengthBytes < 1:
		return fmt.Errorf("a span of %d bytes", s.LengthBytes)
	case s.Ptr == 0:
		return errors.New("a span at address 0")
	case uint64(s.Ptr)+uint64(s.LengthBytes) < uint64(s.Ptr):
		return errors.New("a span that ends beyond all addresses")
	}
	return nil
}

// within says whether n bytes at off lie in total.
func within(off, n, total int64) bool { return off >= 0 && n >= 0 && off <= total && n <= total-off }
