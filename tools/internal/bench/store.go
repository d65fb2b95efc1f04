package bench

import "context"

// Store is what is measured.
type Store interface {
	// Put stores each block's Data, which holds all planes.
	Put(ctx context.Context, blocks []Block) []Answer
	// Get reads Planes planes of each block, from FirstPlane on, into its Data.
	Get(ctx context.Context, blocks []Block) []Answer
	// Match returns how many of the hashes are stored, counted from the first on.
	Match(ctx context.Context, hashes [][]byte) (blocks int, err error)
	// NewBuffer returns memory for Data and a function that gives it back.
	NewBuffer(sizeBytes int) (p []byte, free func(), err error)
	// Flush returns when all that was put before is durable.
	Flush(ctx context.Context) error
	Path() PathInfo
	Close(ctx context.Context) error
}

// Opener makes a store in dir.
type Opener func(ctx context.Context, dir string, s Shape) (Store, error)

// Shape is what a store is made for.
type Shape struct {
	BlockBytes    int64
	Planes        int
	CapacityBytes int64
	// SegmentBytes of 0 is the engine's choice.
	SegmentBytes  int64
	InflightBytes int64 // of all calls at a time
	Depth         int   // requests that its readers must be able to have in the kernel; 0: their default
	Path          string
	Bounce        bool
	Existing      bool // open what is there instead of failing on it
}

// plane is the range of a block that plane i takes. The last one also has
// what the others leave.
func (s Shape) plane(i int) (from, to int64) {
	n := s.BlockBytes / int64(s.Planes)
	from, to = int64(i)*n, int64(i+1)*n
	if i == s.Planes-1 {
		to = s.BlockBytes
	}
	return from, to
}

// Block is a block to get or to put.
type Block struct {
	Hash, Parent, Data []byte
	// FirstPlane and Planes are what Get reads.
	FirstPlane, Planes int
}

// Answer is the outcome for one block.
type Answer struct {
	OK     bool
	Status string // the store's word for it
	Err    error  // if not OK
}

// PathInfo says how a store moves its bytes.
type PathInfo struct {
	Name   string
	Reason string // why not a faster one; may be empty
	// Reader is what the reader says of its requests; nil if it does not.
	Reader *ReaderCount
}

// ReaderCount are requests in flight, summed up over time.
type ReaderCount struct {
	RequestSeconds float64 // sum over all requests of the time in flight
}
