package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"

	"github.com/sealstone/sealstone/internal/vfs"
)

// maxSidecarBytes bounds a tombstone file, and with it what reading one may
// take: two million tombstones for one segment.
const maxSidecarBytes = 256 << 20

// tombFile is the sidecar of a segment, opened when it is first needed.
type tombFile struct {
	file cachedFile // cached among the volume's files

	mu    sync.Mutex // one append or read at a time
	known bool       // next is valid
	next  int        // free slot
	err   error      // why nothing more is written to this file; see renewSidecar
}

// makeSidecar makes the tombstone file of a segment: header written and
// synced. The caller syncs the directory.
func (v *Volume) makeSidecar(id uint64) (allocatedBytes int64, err error) {
	f, err := v.o.FS.Open(SidecarName(id), vfs.ReadWrite|vfs.Create|vfs.Excl)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	header := make([]byte, TombstoneHeaderBytes)
	if err := EncodeTombstoneHeader(header, id, v.o.UUID, v.o.Key); err != nil {
		return 0, err
	}
	if err := writeFull(f, header, 0); err != nil {
		return 0, err
	}
	if err := f.Datasync(); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	return info.AllocatedBytes, err
}

// AppendTombstones appends to the sidecar of a segment and returns when they
// are durable, with one sync for all. A sidecar that is missing is made. Calls
// for one segment are done one after the other. After a failed write or sync
// the tombstones may be there or not, and nothing more is written to that file:
// the next call puts a new one in its place first, and answers ErrPoisoned where
// that fails too. Other errors: ErrNoSegment, ErrInvalid, ErrReadOnly,
// tiers.ErrBusy (open files), those of the system.
func (v *Volume) AppendTombstones(id uint64, ts []Tombstone) error {
	if err := v.appendTombstones(id, ts); err != nil {
		return fmt.Errorf("disk: append %d tombstones to segment %016x: %w", len(ts), id, err)
	}
	return nil
}

func (v *Volume) appendTombstones(id uint64, ts []Tombstone) error {
	if v.o.ReadOnly {
		return ErrReadOnly
	}
	s, err := v.lookup(id)
	if err != nil || len(ts) == 0 {
		return err
	}
	s.tombs.mu.Lock()
	defer s.tombs.mu.Unlock()
	if s.tombs.err != nil {
		if err := v.renewSidecar(s); err != nil {
			return errors.Join(s.tombs.err, err)
		}
	}
	f, done, err := v.openSidecar(s)
	if err != nil {
		return err
	}
	defer done()
	if err := v.findSlot(s, f); err != nil {
		return err
	}
	p, err := v.encodeTombstones(s.id, ts, s.tombs.next, s.tombs.next)
	if err != nil {
		return err
	}
	if err := writeFull(f, p, TombstoneOffset(s.tombs.next)); err != nil {
		return s.tombs.poison(err)
	}
	if err := f.Datasync(); err != nil {
		return s.tombs.poison(err)
	}
	s.tombs.next += len(ts)
	if info, err := f.Stat(); err == nil {
		v.setSidecar(s, info.AllocatedBytes)
	}
	return nil
}

func (t *tombFile) poison(err error) error {
	t.err = fmt.Errorf("%w: %w", ErrPoisoned, err)
	return t.err
}

// openSidecar opens the sidecar of s for a moment; done ends it.
func (v *Volume) openSidecar(s *segment) (f vfs.File, done func(), err error) {
	err = v.cache.acquire(&s.tombs.file)
	if errors.Is(err, fs.ErrNotExist) && !v.o.ReadOnly {
		if err = v.remakeSidecar(s); err == nil {
			err = v.cache.acquire(&s.tombs.file)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	// Each append was synced, so a failed close loses nothing.
	return s.tombs.file.buffered, func() { _ = v.cache.release(&s.tombs.file) }, nil
}

// remakeSidecar makes a sidecar that is lost, or that a crash kept from being
// made, durable before it is used.
func (v *Volume) remakeSidecar(s *segment) error {
	if err := v.cache.reserve(1); err != nil {
		return err
	}
	defer v.cache.unreserve(1)
	allocated, err := v.makeSidecar(s.id)
	if err != nil {
		return err
	}
	if err := v.o.FS.SyncDir(segmentDir(s.id)); err != nil {
		return err
	}
	v.setSidecar(s, allocated)
	s.tombs.next, s.tombs.known = FirstTombstoneSlot, true
	v.mu.Lock()
	s.info.HasSidecar = true
	v.mu.Unlock()
	return nil
}

// findSlot finds the free slot of a sidecar of an earlier run, and makes whole
// and durable what that run left: an append of now must be the only one that a
// power cut can tear, or its trace would pass for damage. Damage in the file
// is left for ReadTombstones to report: appending stays safe, because nothing
// in use is overwritten.
func (v *Volume) findSlot(s *segment, f vfs.File) error {
	if s.tombs.known {
		return nil
	}
	p, err := readSidecar(f)
	if err != nil {
		return err
	}
	scan := scanTombstones(p, s.id, v.o.UUID, v.o.Key)
	if errors.Is(scan.err, ErrUnsupported) {
		return placed(scan.err, SidecarName(s.id), s.id, 0)
	}
	if allZero(p) { // the header never made it to the disk
		header := make([]byte, TombstoneHeaderBytes)
		if err := EncodeTombstoneHeader(header, s.id, v.o.UUID, v.o.Key); err != nil {
			return err
		}
		if err := writeFull(f, header, 0); err != nil {
			return s.tombs.poison(err)
		}
	}
	if err := v.closeHoles(s, f, scan); err != nil {
		return err
	}
	if err := f.Datasync(); err != nil {
		return s.tombs.poison(err)
	}
	s.tombs.next, s.tombs.known = scan.next, true
	return nil
}

// closeHoles fills the holes of a torn append with copies of its last
// tombstone, which say nothing new. They are of its batch: a power cut now
// leaves holes of the same kind.
func (v *Volume) closeHoles(s *segment, f vfs.File, scan tombScan) error {
	for _, hole := range scan.torn() {
		copies := slices.Repeat(scan.found[len(scan.found)-1:], hole.end-hole.first)
		p, err := v.encodeTombstones(s.id, copies, hole.first, scan.batch)
		if err != nil {
			return err
		}
		if err := writeFull(f, p, TombstoneOffset(hole.first)); err != nil {
			return s.tombs.poison(err)
		}
	}
	return nil
}

// encodeTombstones returns the slots from first on of an append that began at
// slot batch.
func (v *Volume) encodeTombstones(id uint64, ts []Tombstone, first, batch int) ([]byte, error) {
	if TombstoneOffset(first+len(ts)) > maxSidecarBytes {
		return nil, invalidf("the sidecar would grow beyond %d bytes", maxSidecarBytes)
	}
	p := make([]byte, len(ts)*TombstoneSlotBytes)
	for i, t := range ts {
		slot := p[i*TombstoneSlotBytes:][:TombstoneSlotBytes]
		if err := EncodeTombstone(slot, t, id, first+i, batch, v.o.Key); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// ReadTombstones reads the sidecar of a segment; a missing one is
// fs.ErrNotExist. With ErrCorrupt or ErrUnsupported the sound tombstones are
// returned all the same; see DecodeTombstones.
func (v *Volume) ReadTombstones(id uint64) ([]Tombstone, error) {
	ts, err := v.readTombstones(id)
	if err != nil {
		return ts, fmt.Errorf("disk: read tombstones of segment %016x: %w", id, err)
	}
	return ts, nil
}

func (v *Volume) readTombstones(id uint64) ([]Tombstone, error) {
	s, err := v.lookup(id)
	if err != nil {
		return nil, err
	}
	s.tombs.mu.Lock()
	defer s.tombs.mu.Unlock()
	if err := v.cache.acquire(&s.tombs.file); err != nil {
		return nil, err
	}
	defer func() { _ = v.cache.release(&s.tombs.file) }()
	p, err := readSidecar(s.tombs.file.buffered)
	if err != nil {
		return nil, err
	}
	ts, _, err := DecodeTombstones(p, id, v.o.UUID, v.o.Key)
	if err != nil {
		return ts, placed(err, SidecarName(id), id, 0)
	}
	return ts, nil
}

// SyncTombstones makes the sidecar of a segment durable as it was read: what a
// process was killed over may be in memory only. A failure poisons the sidecar,
// as one of AppendTombstones does.
func (v *Volume) SyncTombstones(id uint64) error {
	if err := v.syncTombstones(id); err != nil {
		return fmt.Errorf("disk: sync tombstones of segment %016x: %w", id, err)
	}
	return nil
}

func (v *Volume) syncTombstones(id uint64) error {
	s, err := v.lookup(id)
	if err != nil {
		return err
	}
	s.tombs.mu.Lock()
	defer s.tombs.mu.Unlock()
	if s.tombs.err != nil {
		return s.tombs.err
	}
	f, done, err := v.openSidecar(s)
	if err != nil {
		return err
	}
	defer done()
	if err := f.Datasync(); err != nil {
		return s.tombs.poison(err)
	}
	return nil
}

// CheckTombstones reads the sidecar of a segment and checks it, after asking
// the page cache to forget it, so that bytes on the device are looked at where
// it does. Errors: as ReadTombstones.
func (v *Volume) CheckTombstones(id uint64) error {
	if s, err := v.lookup(id); err == nil {
		v.dropSidecar(s)
	}
	_, err := v.ReadTombstones(id)
	return err
}

func (v *Volume) dropSidecar(s *segment) {
	if v.cache.acquire(&s.tombs.file) != nil {
		return
	}
	_ = s.tombs.file.buffered.DropCache(0, maxSidecarBytes) // a hint
	_ = v.cache.release(&s.tombs.file)
}

// readSidecar reads a whole tombstone file.
func readSidecar(f vfs.File) ([]byte, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.SizeBytes > maxSidecarBytes {
		return nil, invalidf("tombstone file of %d bytes, the limit is %d", info.SizeBytes, maxSidecarBytes)
	}
	p := make([]byte, info.SizeBytes)
	if len(p) == 0 {
		return p, nil
	}
	return p, readFull(f, [][]byte{p}, 0, len(p), false)
}
