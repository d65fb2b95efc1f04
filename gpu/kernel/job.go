package kernel

import (
	"encoding/binary"
	"fmt"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/sums"
)

// MaxPieces bounds a job: 4 GiB in whole chunks.
const MaxPieces = 1 << 16

// Bytes of one piece in the memory of a job.
const (
	devicePieceBytes = PieceBytes + accBytes + gotBytes + statusBytes
	resultBytes      = gotBytes + statusBytes
	hostPieceBytes   = PieceBytes + resultBytes
)

// DeviceBytes is how much device memory a job of so many pieces needs.
func DeviceBytes(pieces int) int64 { return int64(pieces) * devicePieceBytes }

// HostBytes is how much pinned memory a job of so many pieces needs.
func HostBytes(pieces int) int64 { return int64(pieces) * hostPieceBytes }

// Job is a list of pieces to verify in one launch, with the memory that the list
// and the answers travel through. It is filled, given to [Kernel.Verify], and
// read when its stream has got past it; then it may be filled anew after Reset.
// It is not for concurrent use.
//
// The memory belongs to the caller. From Verify on, also when Verify failed, it
// must stay untouched until the stream is done, and so must the pieces.
type Job struct {
	device driver.DevicePtr
	host   []byte
	limit  int
	pieces []Piece // what is compared with in the end; the device cannot reach it
	ran    bool
}

// NewJob makes an empty job. device is deviceBytes of device memory, aligned to
// 8 as all allocations are, host pinned memory outside the Go heap. How many
// pieces fit follows from both, see DeviceBytes and HostBytes.
func NewJob(device driver.DevicePtr, deviceBytes int64, host []byte) (*Job, error) {
	limit := min(deviceBytes/devicePieceBytes, int64(len(host))/hostPieceBytes, MaxPieces)
	if device == 0 || device%8 != 0 || limit < 1 {
		return nil, fmt.Errorf("%w: no room for a piece in %d bytes of device memory at %#x and %d bytes of host memory",
			ErrInvalid, deviceBytes, uint64(device), len(host))
	}
	return &Job{device: device, host: host, limit: int(limit)}, nil
}

// Limit is how many pieces the job takes.
func (j *Job) Limit() int { return j.limit }

// Len is how many pieces were added.
func (j *Job) Len() int { return len(j.pieces) }

// Reset empties the job.
func (j *Job) Reset() { j.pieces, j.ran = j.pieces[:0], false }

// Add appends a piece. It returns ErrInvalid for a piece that is empty, longer
// than a chunk or at address 0, and where the job is full or has run.
func (j *Job) Add(p Piece) error {
	switch {
	case j.ran:
		return fmt.Errorf("%w: a piece added after the launch", ErrInvalid)
	case len(j.pieces) == j.limit:
		return fmt.Errorf("%w: more than %d pieces", ErrInvalid, j.limit)
	case p.Address == 0 || p.LengthBytes < 1 || p.LengthBytes > sums.ChunkBytes:
		return fmt.Errorf("%w: a piece of %d bytes at %#x, must be 1 to %d", ErrInvalid, p.LengthBytes, p.Address, sums.ChunkBytes)
	}
	p.put(j.host[len(j.pieces)*PieceBytes:])
	j.pieces = append(j.pieces, p)
	return nil
}

// params lays the job out in its device memory: the table, the accumulators, the
// sums, the status words.
func (j *Job) params() params {
	n, at := uint64(len(j.pieces)), uint64(j.device)
	return params{
		pieces:       at,
		accumulators: at + n*PieceBytes,
		got:          at + n*(PieceBytes+accBytes),
		status:       at + n*(PieceBytes+accBytes+gotBytes),
		count:        uint32(n),
	}
}

// table is the list as it goes to the device.
func (j *Job) table() []byte { return j.host[:len(j.pieces)*PieceBytes] }

// results is where the sums, then the status words, come back to.
func (j *Job) results() []byte {
	n := len(j.pieces)
	return j.host[n*PieceBytes:][:n*resultBytes]
}

// Sum returns what the kernel computed for piece i, whatever was wanted. It
// returns ErrUntrusted where the kernel did not answer, or says match of a sum
// that is not the wanted one or mismatch of one that is.
func (j *Job) Sum(i int) (uint64, error) {
	if i < 0 || i >= len(j.pieces) {
		return 0, fmt.Errorf("%w: piece %d of %d", ErrInvalid, i, len(j.pieces))
	}
	if !j.ran {
		return 0, fmt.Errorf("%w: piece %d was not launched", ErrUntrusted, i)
	}
	le, n := binary.LittleEndian, len(j.pieces)
	got := le.Uint64(j.results()[i*gotBytes:])
	status := le.Uint32(j.results()[n*gotBytes+i*statusBytes:])
	match := got == j.pieces[i].Want
	switch {
	case status == StatusMatch && match, status == StatusMismatch && !match:
		return got, nil
	}
	return 0, fmt.Errorf("%w: piece %d of %d has status %d, sum %#016x, wanted %#016x", ErrUntrusted, i, n, status, got, j.pieces[i].Want)
}

// Verified returns nil only if the kernel found the wanted sum for piece i. It
// returns ErrMismatch where it found another, and ErrUntrusted as Sum does.
func (j *Job) Verified(i int) error {
	got, err := j.Sum(i)
	if err != nil {
		return err
	}
	if want := j.pieces[i].Want; got != want {
		return fmt.Errorf("%w: %d bytes have %#016x, wanted %#016x", ErrMismatch, j.pieces[i].LengthBytes, got, want)
	}
	return nil
}
