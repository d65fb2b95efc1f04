package engine

import "github.com/sealstone/sealstone/gpu"

// DevicePart is a destination in the memory of a GPU for one plane of a block,
// or a byte range of it. The fields are those of [Part].
type DevicePart struct {
	// Plane names the plane; "" is allowed where the layout has just one.
	Plane string
	// OffsetBytes is where the range begins within the plane.
	OffsetBytes int64
	// LengthBytes is the length of the range; 0 means to the end of the
	// plane. The spans must add up to exactly the range.
	LengthBytes int64
	// Spans receive the bytes. They must not overlap one another.
	Spans []gpu.Span
}

// DeviceGetBlock is one block to read into the memory of a GPU.
type DeviceGetBlock struct {
	Hash  []byte
	Parts []DevicePart
}

// DeviceGetOptions applies to a batch.
type DeviceGetOptions struct {
	// WantSeal returns each block's seal for the next hop.
	WantSeal bool
	// HostOnly leaves the direct path out, where there is one.
	HostOnly bool
}

// DevicePath is the way that bytes took between the store and a GPU.
type DevicePath uint8

const (
	// PathNone: no bytes came.
	PathNone DevicePath = iota
	// PathHostBounce: into pinned memory of the host, verified there, copied.
	PathHostBounce
	// PathCuFile: by cuFile into memory of the GPU, verified there.
	PathCuFile
)

var devicePathNames = [...]string{"none", "host-bounce", "cufile"}

// String is the path as metrics name it.
func (p DevicePath) String() string {
	if int(p) < len(devicePathNames) {
		return devicePathNames[p]
	}
	return "unknown"
}

// DeviceGetResult is the outcome for one block. Unless Status is OK, the
// destination holds what it held before.
//
// StatusMiss is also the answer where the store has the block and the GPU
// could not take it: Err then wraps the error of package gpu.
type DeviceGetResult struct {
	Status Status
	Err    error // nil if OK, else a *BlockError
	// Bytes is what was copied to the spans; VerifiedBytes what was read and
	// verified for it (whole chunks).
	Bytes, VerifiedBytes int64
	// Path is the way that the block came, PathNone unless Status is OK.
	Path DevicePath
	// FellBack: the direct path was tried and did not bring the block.
	FellBack bool
	// Seal is set if asked for and Status is OK.
	Seal *Seal
}

// DevicePlane is the source of one plane of a block in the memory of a GPU:
// the concatenation of its spans, which are only read.
type DevicePlane struct {
	Name  string
	Spans []gpu.Span
}

// DevicePutBlock is one block to store from the memory of a GPU.
type DevicePutBlock struct {
	// Hash is the block hash, 16 to 64 bytes; Parent that of the block before
	// it in the prefix, or nil at the root.
	Hash, Parent []byte
	// Planes are the layout's planes, in any order, each exactly once.
	Planes []DevicePlane
	// Seal, if not nil, is what the sums must come to. Without it the seal is
	// taken on the GPU before the copy, where its kernel is proven.
	Seal *Seal
}

func (p *DevicePart) asked() askedPart {
	return askedPart{p.Plane, p.OffsetBytes, p.LengthBytes, deviceBytes(p.Spans)}
}

// deviceBytes is what spans hold together. checkDeviceSpans bounds each of
// them, so that the sum of as many as a slice can have does not overflow.
func deviceBytes(spans []gpu.Span) (n int64) {
	for _, s := range spans {
		n += s.LengthBytes
	}
	return n
}
