// Package tiers holds what the storage tiers have in common: the [Reader]
// that fills memory from files in batches, with one answer per item, and the
// [ReadWriter] that also goes the other way.
//
// The rules of a Reader, which tiers/readertest checks against every
// implementation:
//
//   - Exactly one completion per item; a batch has no answer of its own
//     beyond "nothing was started".
//   - After [Reader.ReadBatch] returned, nothing touches the items or their
//     spans any more: neither a thread nor a request in the kernel.
//   - On any answer but success the spans hold their old bytes or zeros.
//   - No byte outside the spans is ever written.
//   - A batch whose context ends is answered at once; what the kernel still
//     works on lands in memory of the reader and is thrown away.
package tiers

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/internal/vfs"
)

// Answers of an item beside nil, io.ErrUnexpectedEOF (the file ends inside
// the range) and the error of the system.
var (
	// ErrBusy: the queue, the buffers or the open files are at their limit.
	// The read was not started; the data are as good as before.
	ErrBusy = errors.New("tiers: at the limit")
	// ErrAbandoned: the context ended before the read did. It says nothing
	// about the data. The context's cause is wrapped beside it.
	ErrAbandoned = errors.New("tiers: given up before the read ended")
	// ErrClosed: the reader was closed.
	ErrClosed = errors.New("tiers: closed")
	// ErrInvalid: the item is malformed; the message names the field.
	ErrInvalid = errors.New("tiers: invalid item")
)

// File is an open file as a reader needs it.
//
// A read that was given up may still run, so a reader calls Retain before it
// returns with work in flight (or before each piece of work) and Release when
// the work really ended; the owner's descriptors stay open until then.
type File interface {
	// ID names the file in messages.
	ID() uint64
	// File returns the descriptor for direct I/O (direct set) or through the
	// page cache. With direct set it may return nil: no direct I/O here.
	File(direct bool) vfs.File
	Retain()
	Release()
}

// Path is the way bytes took from the file to the spans.
type Path uint8

const (
	// PathNone: no bytes were moved.
	PathNone Path = iota
	// PathDirect: past the page cache, straight into the spans.
	PathDirect
	// PathDirectBounce: past the page cache into a buffer of the reader,
	// copied from there.
	PathDirectBounce
	// PathBuffered: through the page cache, straight into the spans.
	PathBuffered
	// PathBufferedBounce: through the page cache into a buffer of the
	// reader, copied from there.
	PathBufferedBounce
)

func (p Path) String() string {
	switch p {
	case PathNone:
		return "none"
	case PathDirect:
		return "direct"
	case PathDirectBounce:
		return "direct-bounce"
	case PathBuffered:
		return "buffered"
	case PathBufferedBounce:
		return "buffered-bounce"
	}
	return fmt.Sprintf("path %d", uint8(p))
}

// Item is one read of a batch: Length bytes of File from Offset into Spans,
// in order. As one write of a batch it is the other way round.
type Item struct {
	// File stays open while the item runs; see [File].
	File File
	// Offset in bytes, of any alignment.
	Offset int64
	// Length in bytes, at least 1; the lengths of Spans sum to it.
	Length int
	// Spans is the destination of a read: spans of an item, and of items of
	// one batch, must not overlap. It is the source of a write: then none of
	// it may change before the batch returns.
	Spans [][]byte
	// OffHeap says that all of Spans lies outside the Go heap (mapped or
	// pinned memory), so that a device may write to it.
	OffHeap bool
	// WaitForDevice lets the read go straight into Spans even when the
	// context may end: ReadBatch then waits for the device, past the end of
	// the context if need be, once the read has begun.
	WaitForDevice bool
	// Tag is the caller's own; a reader leaves it alone.
	Tag int
	// Done, if set, is told that the item was answered: exactly once, with
	// N, Path and Err set, before the batch returns, and on a goroutine of
	// the reader, where the bytes read are still in that CPU's cache. It is
	// not called for what was given up (ErrAbandoned), so it is of use where
	// nothing is: with WaitForDevice or a context without end. An item that
	// is refused at once is told on the goroutine of the batch. Calls for
	// the items of one batch run concurrently and in any order.
	//
	// It may work on the bytes but must not wait for anything: it holds up
	// other reads. A panic in it is not caught.
	Done func(*Item)

	// Set at completion.

	// N is Length on success, else 0.
	N int
	// Path is the way the bytes took, on success.
	Path Path
	// Err is nil on success only.
	Err error
}

// Check returns an error (of ErrInvalid) when the item's fields contradict
// each other.
func (it *Item) Check() error {
	if it.File == nil {
		return fmt.Errorf("%w: no file", ErrInvalid)
	}
	if it.Offset < 0 || it.Length <= 0 || it.Offset > 1<<62 {
		return fmt.Errorf("%w: offset %d, length %d", ErrInvalid, it.Offset, it.Length)
	}
	sum := 0
	for _, s := range it.Spans {
		sum += len(s)
	}
	if sum != it.Length {
		return fmt.Errorf("%w: spans hold %d bytes, length is %d", ErrInvalid, sum, it.Length)
	}
	return nil
}

// Reader reads batches. Implementations are safe for concurrent use.
type Reader interface {
	// Name says which path this is, for metrics and messages.
	Name() string
	// ReadBatch sets N, Path and Err of every item and returns when all are
	// complete, or when ctx ended: items in flight are then ErrAbandoned,
	// and the memory that the kernel still writes to is the reader's own.
	// Items with WaitForDevice that have begun are waited for. A returned
	// error (ErrClosed) stands in every item too.
	ReadBatch(ctx context.Context, items []Item) error
	// Close refuses new batches and waits until nothing is in flight or ctx
	// ends; then it says so, and may be called again to wait on.
	Close(ctx context.Context) error
}

// ReadWriter reads and writes batches. The rules of a Reader hold for writes
// too, and these:
//
//   - A write is never given up: WriteBatch waits for the device, and the
//     spans must be memory that may wait with it.
//   - Err is nil only if the kernel accepted all bytes. It says nothing about
//     durability: that is the matter of a sync of the file.
//   - After an error the range of the file holds old bytes, new bytes or a
//     mixture; no byte outside it changed.
//   - Spans that suit direct I/O (OffHeap, aligned like the offset, whole
//     pages) go past the page cache where the file has a direct descriptor,
//     others through it. A system that refuses direct I/O (EINVAL,
//     EOPNOTSUPP, EPERM, ENOSYS) costs speed and fails nothing; what says
//     something about the device or its room (ENOSPC, EDQUOT, EIO) is the
//     item's error and is found by errors.Is.
//
// The File of an item that is written must give descriptors that are open for
// writing.
type ReadWriter interface {
	Reader
	// WriteBatch writes Length bytes from the spans of each item, in order,
	// to File at Offset, and sets N, Path and Err. A returned error
	// (ErrClosed) stands in every item too.
	WriteBatch(items []Item) error
}

// FailAll answers every item of a batch with err and returns err. No item may
// have been answered before.
func FailAll(items []Item, err error) error {
	for i := range items {
		items[i].Answer(0, PathNone, err)
	}
	return err
}

// Answer completes the item and tells Done, unless it was given up. Only a
// reader calls it, once, and it is the last that the reader does to the item.
func (it *Item) Answer(n int, path Path, err error) {
	it.N, it.Path, it.Err = n, path, err
	if it.Done != nil && !errors.Is(err, ErrAbandoned) {
		it.Done(it)
	}
}
