package disk

import (
	"errors"

	"github.com/sealstone/sealstone/internal/vfs"
)

// renewSidecar puts a new file in the place of a sidecar of which a write or a
// sync failed: what the system makes of a second sync of the old one proves
// nothing. The new one has the tombstones that were durable before the failure;
// those of the append that failed were never answered for. The caller holds
// tombs.mu.
func (v *Volume) renewSidecar(s *segment) error {
	if _, err := v.lookup(s.id); err != nil {
		return err // or a sidecar would be left that no segment has
	}
	ts, err := v.durableTombstones(s)
	if err != nil {
		return err
	}
	allocated, err := v.writeRenewal(s.id, ts)
	if err == nil {
		err = v.o.FS.Rename(renewalName(s.id), SidecarName(s.id))
	}
	if err != nil {
		// A full disk needs its bytes; OpenVolume removes it otherwise.
		return errors.Join(err, ignoreNotExist(v.o.FS.Remove(renewalName(s.id))))
	}
	v.cache.reopen(&s.tombs.file)
	v.setSidecar(s, allocated)
	if err := v.o.FS.SyncDir(segmentDir(s.id)); err != nil {
		return err // whichever file a power cut leaves has those tombstones
	}
	s.tombs.next, s.tombs.known, s.tombs.err = FirstTombstoneSlot+len(ts), true, nil
	return nil
}

// durableTombstones reads those that were synced. Where not even the end of
// them is known, because the failure came while it was looked for, all that are
// sound count: they are what a crash would have left.
func (v *Volume) durableTombstones(s *segment) ([]Tombstone, error) {
	if err := v.cache.acquire(&s.tombs.file); err != nil {
		return nil, err
	}
	p, err := readSidecar(s.tombs.file.buffered)
	_ = v.cache.release(&s.tombs.file)
	if err != nil {
		return nil, err
	}
	if s.tombs.known {
		p = p[:min(int64(len(p)), TombstoneOffset(s.tombs.next))]
	}
	ts, _, err := DecodeTombstones(p, s.id, v.o.UUID, v.o.Key)
	if err != nil { // evidence, and not to be replaced by what is left of it
		return nil, placed(err, SidecarName(s.id), s.id, 0)
	}
	return ts, nil
}

// writeRenewal makes a sidecar with some tombstones under the other name,
// durable but for that.
func (v *Volume) writeRenewal(id uint64, ts []Tombstone) (allocatedBytes int64, err error) {
	if err := v.cache.reserve(1); err != nil {
		return 0, err
	}
	defer v.cache.unreserve(1)
	if err := ignoreNotExist(v.o.FS.Remove(renewalName(id))); err != nil {
		return 0, err
	}
	slots, err := v.encodeTombstones(id, ts, FirstTombstoneSlot, FirstTombstoneSlot)
	if err != nil {
		return 0, err
	}
	p := make([]byte, TombstoneHeaderBytes, TombstoneHeaderBytes+len(slots))
	if err := EncodeTombstoneHeader(p, id, v.o.UUID, v.o.Key); err != nil {
		return 0, err
	}
	f, err := v.o.FS.Open(renewalName(id), vfs.ReadWrite|vfs.Create|vfs.Excl)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if err := writeFull(f, append(p, slots...), 0); err != nil {
		return 0, err
	}
	if err := f.Datasync(); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	return info.AllocatedBytes, err
}
