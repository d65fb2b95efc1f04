package engine

import (
	"fmt"

	"github.com/sealstone/sealstone/internal/vfs"
)

// room divides the capacity. What is not for segments is set aside, so that
// the index and the log never compete with data for the last byte.
type room struct {
	capacityBytes   int64
	segmentBytes    int64
	logFileBytes    int64
	logBytes        int64 // all log files together
	indexBytes      int64
	quarantineBytes int64
	metaBytes       int64
	freeFloorBytes  int64
}

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30

	minLogFile = 4 * mib
	maxLogFile = 64 * mib
	// logFilesMax bounds the log files: puts are shed when two files' worth is
	// not trimmed, which may touch three files, and one more is being made.
	logFilesMax     = 4
	minSegment      = 8 * mib
	maxSegment      = gib
	minIndexReserve = 32 * mib
	maxQuarantine   = 64 * mib
	metaReserve     = 256 * kib
	// indexBytesPerBlock and typicalBlockBytes size the index reserve.
	indexBytesPerBlock = 200
	typicalBlockBytes  = 64 * kib
	// segmentsMin: one to write, one to move into, one to evict, one free.
	segmentsMin = 4
	// sidecarBytes is what a tombstone file takes at least.
	sidecarBytes = 4 * kib
)

func clamp(v, lo, hi int64) int64 { return min(max(v, lo), hi) }

// defaultSegmentBytes is the segment size of a new store.
func defaultSegmentBytes(o Options, capacityBytes int64) int64 {
	size := o.SegmentBytes
	if size == 0 {
		size = clamp(capacityBytes/64, max(minSegment, 2*o.MaxBlockBytes), maxSegment)
	}
	return (size + 4*kib - 1) &^ (4*kib - 1)
}

// logFileSize is a whole number of pages, as the log wants it, for a capacity
// that need not be one.
func logFileSize(capacityBytes int64) int64 {
	return clamp(capacityBytes/64, minLogFile, maxLogFile) &^ (4*kib - 1)
}

// planRoom divides capacity for a store whose segments are segmentBytes.
func planRoom(o Options, capacityBytes, segmentBytes int64, u vfs.Usage) (room, error) {
	r := room{
		capacityBytes:   capacityBytes,
		segmentBytes:    segmentBytes,
		logFileBytes:    logFileSize(capacityBytes),
		indexBytes:      max(minIndexReserve, 3*indexBytesPerBlock*(capacityBytes/typicalBlockBytes)),
		quarantineBytes: clamp(capacityBytes/64, 0, maxQuarantine),
		metaBytes:       metaReserve,
		freeFloorBytes:  o.FreeFloorBytes,
	}
	if p := o.private; p.logFileBytes > 0 {
		r.logFileBytes, r.indexBytes = p.logFileBytes, p.indexBytes
	}
	r.logBytes = logFilesMax * r.logFileBytes
	if r.freeFloorBytes == 0 {
		r.freeFloorBytes = min(u.TotalBytes/100, gib)
	}
	least := o.MaxBlockBytes + o.MaxBlockBytes/64 + 64*kib
	if segmentBytes < least {
		return r, invalidf("segments of %d bytes cannot hold a block of MaxBlockBytes %d: set SegmentBytes to at least %d, or lower MaxBlockBytes", segmentBytes, o.MaxBlockBytes, least)
	}
	if need := r.reserved() + segmentsMin*(segmentBytes+sidecarBytes); capacityBytes < need {
		return r, fmt.Errorf("%w: %d bytes given, at least %d needed (log %d, index %d, quarantine %d, %d segments of %d); raise CapacityBytes, or lower MaxBlockBytes or SegmentBytes in a new store",
			ErrCapacity, capacityBytes, need, r.logBytes, r.indexBytes, r.quarantineBytes, segmentsMin, segmentBytes)
	}
	return r, nil
}

func (r room) reserved() int64 { return r.logBytes + r.indexBytes + r.quarantineBytes + r.metaBytes }

// segmentBudget is what segments and their sidecars may hold together.
func (r room) segmentBudget() int64 { return r.capacityBytes - r.reserved() }

// defaultCapacity is taken where none is given: 80 % of what is free, what
// the store holds already included, and no more than limitBytes unless that
// is 0.
func defaultCapacity(u vfs.Usage, heldBytes, limitBytes int64) int64 {
	capacity := (u.AvailableBytes + heldBytes) / 5 * 4
	if limitBytes > 0 {
		capacity = min(capacity, limitBytes)
	}
	return capacity
}
