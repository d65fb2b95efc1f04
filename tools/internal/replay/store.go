package replay

import "context"

// Store is what a replay drives.
type Store interface {
	// Match returns how many of the hashes are stored, counted from the first
	// on, and a function that ends the promise to keep them.
	Match(ctx context.Context, hashes [][]byte) (blocks int, release func(), err error)
	// Get reads each block into its Data.
	Get(ctx context.Context, blocks []Block) []Result
	// Put stores each block's Data.
	Put(ctx context.Context, blocks []Block) []Result
	// Drop removes a block; OK means that it will not come back.
	Drop(ctx context.Context, hash []byte) Result
	// NewBuffer returns memory for Data and a function that gives it back.
	NewBuffer(sizeBytes int) (p []byte, free func(), err error)
	// Counters are the store's own counts since it was opened.
	Counters() Counters
	// Flush returns when all that was put before is in the index.
	Flush(ctx context.Context) error
	Close(ctx context.Context) error
}

// Block is a block to get or to put.
type Block struct {
	Hash, Parent, Data []byte
}

// Result is the outcome for one block.
type Result struct {
	OK      bool
	Status  string // the store's word for it
	Existed bool   // put: the key was stored before
	Shed    bool   // put: refused because a bound was reached
	Bytes   int64  // get: bytes that were delivered
	Err     error  // if not OK
}

// Counters are what a store says of itself; a replay cannot see them.
type Counters struct {
	SegmentBytes int64 // written to segments: headers and moves included
	LogBytes     int64
	IndexBytes   int64
	Evicted      int64 // blocks
}

func (c Counters) writtenBytes() int64 { return c.SegmentBytes + c.LogBytes + c.IndexBytes }

func (c Counters) add(d Counters) Counters {
	return Counters{
		SegmentBytes: c.SegmentBytes + d.SegmentBytes,
		LogBytes:     c.LogBytes + d.LogBytes,
		IndexBytes:   c.IndexBytes + d.IndexBytes,
		Evicted:      c.Evicted + d.Evicted,
	}
}
