package engine

import (
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/disk"
)

// quarantine takes a block out that did not verify: as compare-and-swap on
// address and put sequence, so that a late report never hits a newer block.
func (s *Store) quarantine(k index.Key, e index.Entry, reason string) {
	if !s.storm.allow(s.o.private.now(), s.storm.counts(s), e) {
		s.health.set("storm", HealthAllMiss, "more than %d blocks in %v, or 0.1 %% of reads, did not verify: the path or the device is bad; nothing is quarantined. The store tries by itself whether blocks verify again; or call Resume when it is mended", stormCount, stormWindow)
		s.event(EventQuarantineStorm, "block %x in %v did not verify (%s); too many, not quarantined", k.Hash, e.Address, reason)
		return
	}
	s.takeOut(k, e, reason)
}

// takeOut is quarantine without the question whether the path is to blame.
func (s *Store) takeOut(k index.Key, e index.Entry, reason string) {
	if s.writable() != nil {
		return
	}
	guest := s.beGuest(e.Address, guestBuries)
	if guest == nil {
		return // being evicted
	}
	defer s.endGuest(&guest)
	if s.knownBad(e.Address) {
		return
	}
	s.keepEvidence(k, e, reason)
	err := s.vol.AppendTombstones(e.Address.Segment, []disk.Tombstone{{
		Kind: disk.TombstoneQuarantine, Namespace: k.Namespace, Hash: []byte(k.Hash), Seq: e.Seq, Page: e.Address.Page,
	}})
	if errors.Is(err, tiers.ErrBusy) {
		return // nothing was written; the next read will tell again
	}
	r := &record{Kind: recordQuarantine, Key: k, Entry: e}
	if err == nil {
		err = s.logQuarantine(r)
	} else {
		s.mu.Lock()
		s.spoilt[e.Address] = struct{}{}
		s.debts.oweLocked(r)
		s.mu.Unlock()
	}
	if err != nil {
		s.mu.Lock()
		s.breakLocked("quarantine", err)
		s.mu.Unlock()
		return
	}
	s.count.quarantined.Add(1)
	s.event(EventQuarantine, "block %x in %s offset %d: %s", k.Hash, disk.SegmentName(e.Address.Segment), e.Address.Offset(), reason)
}

// logQuarantine shows the address to be bad, and then logs it: a put that is
// logged later does not share it (rule shareguard).
func (s *Store) logQuarantine(r *record) error {
	s.orderMu.Lock()
	defer s.orderMu.Unlock()
	s.mu.Lock()
	s.bad[r.Entry.Address], s.spoilt[r.Entry.Address] = struct{}{}, struct{}{}
	s.mu.Unlock()
	return s.logInOrder([]*record{r}, func(bool) {})
}

func (s *Store) knownBad(a disk.Address) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, bad := s.bad[a]
	return bad
}

// keepEvidence copies the bad extent into quarantine/ while there is room;
// it never fails anything.
func (s *Store) keepEvidence(k index.Key, e index.Entry, reason string) {
	const dir = "quarantine"
	head := []byte(fmt.Sprintf("namespace %d hash %x sequence %d %s: %s\n", k.Namespace, k.Hash, e.Seq, e.Address, reason))
	size := int64(len(head)) + e.Bytes()
	if s.count.evidenceBytes.Add(size) > s.room.quarantineBytes {
		s.count.evidenceBytes.Add(-size)
		return
	}
	if err := s.writeEvidence(fmt.Sprintf("%s/%016x-%d.bad", dir, e.Address.Segment, e.Address.Page), head, e); err != nil {
		s.o.Logger.Warn("sealstone: evidence was not kept", "err", err)
	}
}

func (s *Store) writeEvidence(name string, head []byte, e index.Entry) error {
	h, err := s.vol.Acquire(e.Address.Segment)
	if err != nil {
		return err
	}
	defer h.Release()
	f, err := s.fs.Open(name, vfs.Create|vfs.Excl|vfs.ReadWrite)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.WriteAt(head, 0); err != nil {
		return err
	}
	buf := make([]byte, 64*kib)
	for off := int64(0); off < e.Bytes(); off += int64(len(buf)) {
		part := buf[:min(int64(len(buf)), e.Bytes()-off)]
		n, _ := h.File(false).ReadAt(part, e.Address.Offset()+off)
		if _, err := f.WriteAt(part[:n], int64(len(head))+off); err != nil {
			return err
		}
	}
	return nil
}

// evidenceHeld sums up what quarantine/ holds at Open.
func evidenceHeld(fsys vfs.FS) (int64, error) {
	names, err := fsys.List(quarantineDir)
	if err != nil {
		if vfs.IsNotExist(err) {
			return 0, nil
		}
		return 0, err
	}
	sum := int64(0)
	for _, n := range names {
		i, err := fsys.Stat(quarantineDir + "/" + n)
		if err != nil {
			return 0, err
		}
		sum += i.AllocatedBytes
	}
	return sum, nil
}
