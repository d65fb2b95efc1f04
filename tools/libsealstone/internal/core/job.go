package core

import (
	"time"
	"unsafe"
)

// Op is what a job does, as sealstone.h numbers it.
type Op uint32

// The operations.
const (
	OpPut Op = iota + 1
	OpGet
	OpExists
	OpTouch
	OpDrop
)

// Known reports whether there is such an operation.
func (o Op) Known() bool { return o >= OpPut && o <= OpDrop }

// class is the queue that an operation waits in, the more urgent first: what
// needs the index alone, reads, writes.
func (o Op) class() int {
	switch o {
	case OpExists, OpTouch:
		return 0
	case OpGet:
		return 1
	}
	return 2
}

const classes = 3

// Span is memory of the caller, outside the Go heap. It is the caller's duty
// that it stays there until the job's completion was drained; the job lets go
// of it before it completes.
type Span struct {
	Ptr unsafe.Pointer
	Len uint64
}

func (s Span) bytes() []byte { return unsafe.Slice((*byte)(s.Ptr), s.Len) }

// Part is a plane of a block, or a range of one.
type Part struct {
	Plane                    string
	Spans                    []Span
	OffsetBytes, LengthBytes int64
}

// Item is one block of a job. Everything but the memory behind spans is a copy
// of the library's.
type Item struct {
	Hash, Parent []byte
	Parts        []Part
	Seal         []byte // of a put: encoded, or nil
	SealOut      Span   // of a get: where to write it; none if empty
}

// Job is an operation on a batch of blocks.
type Job struct {
	Op       Op
	Items    []Item
	Durable  bool
	Wait     bool          // for the device: see engine.GetOptions.WaitForDevice
	Timeout  time.Duration // 0: the store's
	UserData uint64
}

const (
	// jobBytes, itemBytes and spanBytes are what the library keeps for a job
	// until it is drained, rounded up, beside copies of hashes and names.
	jobBytes  = 1 << 10
	itemBytes = 512
	spanBytes = 64
)

// cost is what a job counts against the bound of the queue: the memory that it
// ties up, the caller's and the library's.
func (j *Job) cost() int64 {
	cost := int64(jobBytes)
	for i := range j.Items {
		it := &j.Items[i]
		cost += itemBytes + int64(len(it.Hash)+len(it.Parent)+len(it.Seal))
		for k := range it.Parts {
			p := &it.Parts[k]
			cost += spanBytes * int64(1+len(p.Spans))
			for _, s := range p.Spans {
				cost += int64(s.Len)
			}
		}
	}
	return cost
}

// The flags of a result, as in sealstone.h.
const (
	FlagExisted = 1 << iota
	FlagDiffers
	FlagShared
	FlagDurable
)

// Result is the outcome of one item.
type Result struct {
	Status               Status
	Flags                uint32
	Bytes, VerifiedBytes uint64
	SealBytes            uint32
}

// Completion is a job that has ended.
type Completion struct {
	ID, UserData uint64
	Op           Op
	Status       Status
	OKs          uint32
	Results      []Result
	reasons      []reason
	cost         int64
}

// reason is why an item was not OK.
type reason struct {
	op   uint64
	item uint32
	text string
}
