package kernel

import "encoding/binary"

// The names of the entry points in the PTX.
const (
	EntryLanes  = "kv_xxh64_lanes"
	EntryFinish = "kv_xxh64_finish"
)

// ThreadsPerBlock is the block size of every launch.
const ThreadsPerBlock = 128

// lanes is how many threads of the first entry point share a piece: XXH64 has
// so many accumulators.
const lanes = 4

// Status words as the kernel writes them. The host clears them to
// StatusUntouched before the launch.
const (
	StatusUntouched uint32 = 0
	StatusMatch     uint32 = 1
	StatusMismatch  uint32 = 2
)

// Sizes in bytes of what goes to the device; the layouts are in the package
// documentation and, as assertions, in verify.cu.
const (
	ParamBytes  = 40
	PieceBytes  = 24
	accBytes    = lanes * 8
	gotBytes    = 8
	statusBytes = 4
)

// params is the by-value parameter of both entry points.
type params struct {
	pieces, accumulators, got, status uint64
	count                             uint32
}

// encode returns the parameter as the kernel reads it.
func (p params) encode() []byte {
	b := make([]byte, ParamBytes)
	le := binary.LittleEndian
	le.PutUint64(b[0:], p.pieces)
	le.PutUint64(b[8:], p.accumulators)
	le.PutUint64(b[16:], p.got)
	le.PutUint64(b[24:], p.status)
	le.PutUint32(b[32:], p.count)
	return b
}

// Piece is one run of bytes in device memory with the chunk sum that it should
// have.
type Piece struct {
	Address     uint64 // device address of the first byte, of any alignment
	LengthBytes int    // 1 to sums.ChunkBytes
	Want        uint64 // chunk sum
}

// put writes p as a row of the table; b has PieceBytes bytes.
func (p Piece) put(b []byte) {
	le := binary.LittleEndian
	le.PutUint64(b[0:], p.Address)
	le.PutUint32(b[8:], uint32(p.LengthBytes))
	le.PutUint32(b[12:], 0)
	le.PutUint64(b[16:], p.Want)
}
