package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// Create makes a new segment and its sidecar and returns the Writer. Both
// files, their header pages and their names are durable before it returns, so
// nothing that is written to them later can lose its name. An id must never
// be used twice. Errors: fs.ErrExist (also where a file of another store has
// the name), ErrReadOnly, tiers.ErrBusy (open files),
// tiers.ErrClosed, those of the system (no space, ...); the files are then
// taken away again.
func (v *Volume) Create(id uint64, class uint8) (*Writer, error) {
	w, err := v.create(id, class)
	if err != nil {
		return nil, fmt.Errorf("disk: create segment %016x: %w", id, err)
	}
	return w, nil
}

func (v *Volume) create(id uint64, class uint8) (w *Writer, err error) {
	if v.o.ReadOnly {
		return nil, ErrReadOnly
	}
	if err := v.cache.reserve(writerFiles + 1); err != nil {
		return nil, err
	}
	defer v.cache.unreserve(1) // the sidecar's, which is opened again when it is needed
	s, err := v.claimID(id)
	if err != nil {
		v.cache.unreserve(writerFiles)
		return nil, err
	}
	w = &Writer{
		v: v, s: s,
		next:       1,
		limitPages: uint32(v.o.SegmentBytes / PageBytes),
		reserved:   map[uint32]reservation{},
	}
	w.changed = sync.NewCond(&w.mu)
	dataBytes, sidecarBytes, err := v.makeFiles(w, class)
	if err != nil {
		return nil, errors.Join(err, v.undoCreate(w))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	s.info = SegmentInfo{ID: id, Class: class, SizeBytes: v.o.SegmentBytes, HasSidecar: true}
	s.dataBytes, s.sidecarBytes = dataBytes, sidecarBytes
	s.tombs.next, s.tombs.known = FirstTombstoneSlot, true
	s.unlinking, s.writer = false, w
	v.allocated += dataBytes + sidecarBytes
	return w, nil
}

// claimID enters a segment that nobody can use yet.
func (v *Volume) claimID(id uint64) (*segment, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.closed {
		return nil, tiers.ErrClosed
	}
	if _, ok := v.segs[id]; ok {
		return nil, fs.ErrExist
	}
	if err := v.foreignErr(id); err != nil {
		return nil, err
	}
	s := v.newSegment(id)
	s.unlinking = true
	v.segs[id] = s
	return s, nil
}

// makeFiles makes both files durable under their names.
func (v *Volume) makeFiles(w *Writer, class uint8) (dataBytes, sidecarBytes int64, err error) {
	id := w.s.id
	if err := v.makeDir(segmentDir(id)); err != nil {
		return 0, 0, err
	}
	header := make([]byte, PageBytes)
	h := SegmentHeader{UUID: v.o.UUID, Segment: id, SizeBytes: v.o.SegmentBytes, Class: class}
	if err := EncodeSegmentHeader(header, h, v.o.Key); err != nil {
		return 0, 0, err
	}
	if w.buffered, err = v.o.FS.Open(SegmentName(id), vfs.Create|vfs.Excl); err != nil {
		return 0, 0, err
	}
	if w.direct, err = v.openDirect(SegmentName(id), vfs.ReadWrite); err != nil {
		return 0, 0, err
	}
	if err := w.buffered.Preallocate(0, v.o.SegmentBytes); err != nil {
		return 0, 0, err
	}
	if err := w.writePages(header, 0); err != nil {
		return 0, 0, err
	}
	if err := w.buffered.Datasync(); err != nil {
		return 0, 0, err
	}
	info, err := w.buffered.Stat()
	if err != nil {
		return 0, 0, err
	}
	sidecarBytes, err = v.makeSidecar(id)
	if err != nil {
		return 0, 0, err
	}
	return info.AllocatedBytes, sidecarBytes, v.o.FS.SyncDir(segmentDir(id))
}

// makeDir makes the directory of a segment, durably. A directory that is
// there may be so in memory only, so the first use of each is synced too.
func (v *Volume) makeDir(dir string) error {
	v.mu.Lock()
	known := v.dirs[dir]
	v.mu.Unlock()
	if known {
		return nil
	}
	if err := v.o.FS.Mkdir(dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := v.o.FS.SyncDir(segmentsDir); err != nil {
		return err
	}
	v.mu.Lock()
	v.dirs[dir] = true
	v.mu.Unlock()
	return nil
}

// undoCreate takes away what a failed create left. What cannot be taken away
// is counted with the size it may have.
func (v *Volume) undoCreate(w *Writer) error {
	id := w.s.id
	err := closeAll(w.buffered, w.direct)
	v.cache.unreserve(writerFiles)
	// Without the segment's file its sidecar is nothing; it goes last, as in
	// Unlink. An existing file is not ours.
	var removeErr error
	if w.buffered != nil {
		removeErr = ignoreNotExist(v.o.FS.Remove(SegmentName(id)))
		if removeErr == nil {
			removeErr = ignoreNotExist(v.o.FS.Remove(SidecarName(id)))
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.segs, id)
	if removeErr != nil {
		v.allocated += v.o.SegmentBytes + PageBytes
	}
	return errors.Join(err, removeErr)
}

func ignoreNotExist(err error) error {
	if vfs.IsNotExist(err) {
		return nil
	}
	return err
}
