package canary

import "github.com/sealstone/sealstone/gpu/kernel"

// evidence is all that was seen of one read.
type evidence struct {
	transfer
	// returned is what the read reported, in bytes.
	returned int64
	// file is the content of the whole file at the time of the read, before
	// what stood there before it was rewritten; nil if it was not.
	file, before []byte
	// slot is the memory around the destination, copied back: a guard zone,
	// the slot and another guard zone. neighbour is that of a second
	// registered buffer that no read was for.
	slot, neighbour []byte
	// poison filled the slot before the read, guard the guard zones and the
	// neighbour.
	poison, guard byte
	// owner is what the kernel of the GPU said of each piece of the
	// destination. nil: the kernel is not proven.
	owner []uint32
	// routes count the reads of this GPU by route around the read; nil: the
	// library has no counters that can be trusted.
	routesBefore, routesAfter *routes
}

// routes count reads by the way they took, as cuFileGetStatsL3 does
// (n_p2p_reads, n_nvfs_reads and n_posix_reads of CUfilePerGpuStats_t in
// cufile.h, since CUDA 13.0).
type routes struct {
	P2P, NVFS, POSIX uint64
}

// Statuses of a piece. Every other one is no answer.
const (
	ownerMatch    = kernel.StatusMatch
	ownerMismatch = kernel.StatusMismatch
)

// want is the content that the read was to bring.
func (e *evidence) want() []byte { return e.file[e.FileOffset:][:e.Length] }

// inSlot is where the destination begins in slot, guard zone included.
func (e *evidence) inSlot() int64 { return pieceBytes + e.SlotOffset }

// got is what arrived.
func (e *evidence) got() []byte { return e.slot[e.inSlot():][:e.Length] }
