// Package disk is the tier on local disks: its formats, and the files that
// hold them.
//
// A [Volume] is the set of segment files of one store. A [Writer] appends
// extents to one of them, [Handle] keeps one open for readers, [PreadReader]
// moves bytes from handles to memory. Beside each segment lies a file of
// tombstones that dies with it.
//
// The package promises durability where a method says so, and order: a
// segment and its sidecar have durable names before either is used; no
// unwritten hole precedes a durable extent; a footer is durable before the
// file is cut behind it; a segment's removal is durable before its tombstones
// go. A file of which a write or a sync failed is never written again.
//
// Every artifact is described beside its codec and under docs/format. All of
// them are bound to store, segment and place by keyed sums, so that nothing in
// a payload, and nothing of another store, passes for one.
package disk

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// Errors of a Volume beside ErrCorrupt, ErrUnsupported, ErrInvalid and those
// of package tiers.
var (
	// ErrNoSegment: the segment is absent or unlinked.
	ErrNoSegment = errors.New("disk: no such segment")
	// ErrPoisoned: a write or a sync of this file failed before. Nothing is
	// written to it any more; what was synced before stays readable. The
	// first failure is wrapped beside it.
	ErrPoisoned = errors.New("disk: file failed before and takes no more writes")
	// ErrReadOnly: the volume was opened read-only.
	ErrReadOnly = errors.New("disk: volume is read-only")
)

// DirectMode says whether a Volume tries direct I/O.
type DirectMode uint8

const (
	// DirectAuto uses direct I/O where a probe in the directory moved bytes
	// through it and found them again.
	DirectAuto DirectMode = iota
	// DirectNever goes through the page cache.
	DirectNever
)

// Limits and defaults of [VolumeOptions].
const (
	DefaultMaxOpenFiles = 512
	MinOpenFiles        = 8
	minSegmentPages     = 4                // header, an extent, footer
	ownPoolBytes        = int64(256) << 20 // of the pool made where none is given
	writePieceBytes     = 8 << 20          // most bytes of one write
	readPieceBytes      = 1 << 20          // most bytes of one read of a scan
	writerFiles         = 2                // descriptors of a Writer
)

// VolumeOptions sets up a [Volume].
type VolumeOptions struct {
	// FS is the root of the store. Required.
	FS vfs.FS
	// UUID and Key are the store's; they bind every artifact to it.
	UUID [16]byte
	Key  sums.Key
	// SegmentBytes is the size of new segments: a multiple of 4096 from
	// 16 KiB to MaxSegmentBytes.
	SegmentBytes int64
	// MaxOpenFiles bounds the open descriptors, idle and in use. 0 means
	// DefaultMaxOpenFiles; the least is MinOpenFiles.
	MaxOpenFiles int
	// Direct is DirectAuto or DirectNever.
	Direct DirectMode
	// Probe is what a Probe of FS found out just now. Nil: the volume does a
	// quick one itself.
	Probe *ProbeReport
	// Pool gives the buffers of scans, of 1 MiB each, and for
	// writes from memory that does not suit direct I/O. Nil: an own one.
	Pool *aligned.Pool
	// IO returns what writes extents, several requests at a time; it is asked
	// for each write. Nil, or a nil answer: they are written one after the
	// other with pwrite(2).
	IO func() tiers.ReadWriter
	// MaxBlockBytes is the largest block of the store, 0 for the format's
	// limit; a segment must have room for one.
	MaxBlockBytes int64
	// OnFreed is called when the bytes of an unlinked segment have returned,
	// without locks held. Nil: nobody is told.
	OnFreed func()
	// ReadOnly changes nothing on disk: no probe, no healing, no writers.
	ReadOnly bool
}

// SegmentInfo describes a segment file.
type SegmentInfo struct {
	ID    uint64
	Class uint8
	// SizeBytes is the length of the file.
	SizeBytes int64
	// Modified is when the segment had last been written to as OpenVolume found
	// it; zero for those made since, and where the file system does not say.
	Modified time.Time
	// AllocatedBytes is what segment and sidecar hold on disk.
	AllocatedBytes int64
	// Sealed: the last page is a valid trailer.
	Sealed bool
	// HasSidecar: the tombstone file is there.
	HasSidecar bool
	// HeaderErr says why the header page is not a valid one of this segment.
	// Extents may be readable all the same.
	HeaderErr error
	// TrailerErr says why it is unknown whether the segment is sealed: its last
	// page can not be read. Until it can, nothing is written to the file.
	TrailerErr error
}

// Volume is the set of segment files of one store, under segments/. It is
// safe for concurrent use.
type Volume struct {
	o       VolumeOptions
	cache   *fileCache
	ownPool bool

	mu            sync.Mutex
	segs          map[uint64]*segment
	strange       []string
	foreign       map[uint64]string // files of no or another store under a name of ours; set once
	dirs          map[string]bool   // directories under segments/ known durable
	directRefusal string
	allocated     int64 // bytes on disk of everything, unlinked and open too
	leaving       int64 // of these, bytes of unlinked segments that readers hold open
	closed        bool
}

// segment is one segment file and its sidecar.
type segment struct {
	id    uint64
	data  cachedFile
	tombs tombFile

	// Guarded by Volume.mu.
	info         SegmentInfo // but for AllocatedBytes
	dataBytes    int64       // allocated
	sidecarBytes int64       // allocated
	writer       *Writer     // not closed yet
	sealing      bool        // by SealOld
	unlinking    bool
	foreign      bool // set by inspect: not of this store
}

func (s *segment) snapshot() SegmentInfo {
	info := s.info
	info.AllocatedBytes = s.dataBytes + s.sidecarBytes
	return info
}

func (o *VolumeOptions) check() error {
	if o.FS == nil {
		return invalidf("open volume: no file system")
	}
	if o.SegmentBytes%PageBytes != 0 || o.SegmentBytes < minSegmentPages*PageBytes || o.SegmentBytes > MaxSegmentBytes {
		return invalidf("open volume: segment size %d is not a multiple of %d from %d to %d",
			o.SegmentBytes, PageBytes, minSegmentPages*PageBytes, int64(MaxSegmentBytes))
	}
	if o.MaxBlockBytes < 0 || o.MaxBlockBytes > o.SegmentBytes-(minSegmentPages-1)*PageBytes {
		return invalidf("open volume: a block of %d bytes has no room in a segment of %d", o.MaxBlockBytes, o.SegmentBytes)
	}
	o.MaxOpenFiles = orDefault(o.MaxOpenFiles, DefaultMaxOpenFiles)
	if o.MaxOpenFiles < MinOpenFiles {
		return invalidf("open volume: %d open files, the least is %d", o.MaxOpenFiles, MinOpenFiles)
	}
	return nil
}

// Segments returns all live segments, ascending by id.
func (v *Volume) Segments() []SegmentInfo {
	v.mu.Lock()
	defer v.mu.Unlock()
	out := make([]SegmentInfo, 0, len(v.segs))
	for _, s := range v.segs {
		out = append(out, s.snapshot())
	}
	slices.SortFunc(out, func(a, b SegmentInfo) int { return cmp.Compare(a.ID, b.ID) })
	return out
}

// Segment returns one live segment.
func (v *Volume) Segment(id uint64) (SegmentInfo, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.segs[id]
	if !ok {
		return SegmentInfo{}, false
	}
	return s.snapshot(), true
}

// Strange lists what was found under segments/ at opening and is not the
// volume's, sorted: other names, and under names of segments and sidecars the
// files of another store. It is never changed or deleted.
func (v *Volume) Strange() []string { return slices.Clone(v.strange) }

// AllocatedBytes is what the volume holds on disk: segments, sidecars,
// segments that are unlinked and still open, and files of another store under
// names of ours.
func (v *Volume) AllocatedBytes() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.allocated
}

// LeavingBytes is the part of AllocatedBytes that returns by itself: of
// segments that are unlinked and held open by readers.
func (v *Volume) LeavingBytes() int64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.leaving
}

// DirectRefusal says why direct I/O is not used, or "" when it is.
func (v *Volume) DirectRefusal() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.directRefusal
}

// OpenFiles returns the number of open descriptors and their limit.
func (v *Volume) OpenFiles() (open, limit int) {
	v.cache.mu.Lock()
	defer v.cache.mu.Unlock()
	return v.cache.open, v.cache.limit
}

// Close closes the idle files. Handles and writers that are out stay usable;
// their files are closed as they are released. Close then returns an error
// that counts them.
func (v *Volume) Close() error {
	v.mu.Lock()
	v.closed = true
	v.mu.Unlock()
	inUse, err := v.cache.close()
	if inUse > 0 {
		return errors.Join(err, fmt.Errorf("disk: close volume: %d files are still in use", inUse))
	}
	if v.ownPool {
		err = errors.Join(err, v.o.Pool.Close())
	}
	return err
}

func (v *Volume) lookup(id uint64) (*segment, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.segs[id]
	if !ok || s.unlinking {
		return nil, ErrNoSegment
	}
	return s, nil
}

func (v *Volume) useDirect() bool { return v.DirectRefusal() == "" }

// refuseDirect stops direct I/O for files opened from now on; the first
// reason is kept.
func (v *Volume) refuseDirect(reason string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.directRefusal == "" {
		v.directRefusal = reason
	}
}

// sortedIDs returns the ids of the live segments; v.mu must be held.
func (v *Volume) sortedIDs() []uint64 { return slices.Sorted(maps.Keys(v.segs)) }
