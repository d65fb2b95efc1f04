package disk

import (
	"fmt"

	"github.com/sealstone/sealstone/internal/vfs"
)

// Unlink removes a segment: no Acquire succeeds from now on, handles that are
// out read on. It returns when the removal is durable. The order is segment,
// directory sync, sidecar: tombstones must not go before what they kill. A
// sidecar that comes back after a power cut is removed by OpenVolume.
//
// For an absent segment it makes the absence durable, so it can be repeated
// after a crash; a strange file of that name is left alone. A segment with an open Writer is ErrInvalid. After an error
// the segment is either as before (the removal failed), or gone for readers
// and perhaps there again after a power cut, with its sidecar.
func (v *Volume) Unlink(id uint64) error {
	if v.o.ReadOnly {
		return fmt.Errorf("disk: unlink segment %016x: %w", id, ErrReadOnly)
	}
	s, err := v.beginUnlink(id)
	if err != nil {
		return fmt.Errorf("disk: unlink segment %016x: %w", id, err)
	}
	if s == nil {
		return v.unlinkAbsent(id)
	}
	if err := v.o.FS.Remove(SegmentName(id)); err != nil && !vfs.IsNotExist(err) {
		v.mu.Lock()
		s.unlinking = false
		v.mu.Unlock()
		return fmt.Errorf("disk: unlink segment %016x: %w", id, err)
	}
	v.mu.Lock()
	delete(v.segs, id)
	v.leaving += s.dataBytes
	v.mu.Unlock()
	syncErr := v.o.FS.SyncDir(segmentDir(id))
	// The files are closed with their last users; until then the blocks are
	// held, and counted.
	_ = v.cache.retire(&s.data, func() { v.freed(s) })
	if syncErr != nil {
		return fmt.Errorf("disk: unlink segment %016x: %w", id, syncErr)
	}
	if err := v.removeSidecar(s); err != nil {
		return fmt.Errorf("disk: unlink segment %016x: its sidecar stays until the next open: %w", id, err)
	}
	return nil
}

// freed counts the bytes of an unlinked segment as returned.
func (v *Volume) freed(s *segment) {
	v.mu.Lock()
	v.leaving -= s.dataBytes
	v.mu.Unlock()
	v.setData(s, 0)
	if v.o.OnFreed != nil {
		v.o.OnFreed()
	}
}

// removeSidecar waits for an append under way, which would count the file's
// bytes again.
func (v *Volume) removeSidecar(s *segment) error {
	s.tombs.mu.Lock()
	defer s.tombs.mu.Unlock()
	_ = v.cache.retire(&s.tombs.file, nil)
	if err := v.o.FS.Remove(SidecarName(s.id)); err != nil && !vfs.IsNotExist(err) {
		return err
	}
	v.setSidecar(s, 0)
	return nil
}

// beginUnlink shuts new readers out. It returns nil for an absent segment.
func (v *Volume) beginUnlink(id uint64) (*segment, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.segs[id]
	if !ok {
		return nil, nil
	}
	if s.unlinking {
		return nil, fmt.Errorf("another unlink is under way: %w", ErrInvalid)
	}
	if s.writer != nil || s.sealing {
		return nil, fmt.Errorf("it is being written: %w", ErrInvalid)
	}
	s.unlinking = true
	return s, nil
}

// unlinkAbsent makes the absence of a segment durable and takes its sidecar
// away if that is still there. What is strange stays.
func (v *Volume) unlinkAbsent(id uint64) error {
	if err := v.o.FS.SyncDir(segmentDir(id)); err != nil {
		if vfs.IsNotExist(err) {
			return nil
		}
		return fmt.Errorf("disk: unlink absent segment %016x: %w", id, err)
	}
	if v.foreign[id] != "" {
		return nil
	}
	if err := v.o.FS.Remove(SidecarName(id)); err != nil && !vfs.IsNotExist(err) {
		return fmt.Errorf("disk: unlink absent segment %016x: %w", id, err)
	}
	return nil
}

func (v *Volume) setData(s *segment, bytes int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.allocated += bytes - s.dataBytes
	s.dataBytes = bytes
}

func (v *Volume) setSidecar(s *segment, bytes int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.allocated += bytes - s.sidecarBytes
	s.sidecarBytes = bytes
}
