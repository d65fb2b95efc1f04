package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// act carries a plan out, in two parts. The first works on the files of a
// closed store; each of its steps is one that a crash may have in its middle,
// and leaves what the next repair finds as it finds damage. Then the store is
// opened, which heals, replays, rebuilds and seals as ever, and blocks are
// quarantined by the protocol of the running store.
func (r *repairer) act(ctx context.Context, p *repairPlan) error {
	if err := r.mendFiles(ctx, p); err != nil {
		return err
	}
	s, err := r.openMended(p)
	if err != nil {
		return fmt.Errorf("open what was mended: %w", err)
	}
	err = r.takeOut(ctx, s, p)
	if err == nil {
		err = r.finish(s)
	}
	return errors.Join(err, s.Close(context.WithoutCancel(ctx)))
}

func (r *repairer) mendFiles(ctx context.Context, p *repairPlan) (err error) {
	s, err := openRoot(r.dir, r.private)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.release()) }()
	state, err := stateOf(s.fs)
	if err != nil {
		return err
	}
	if state != p.state {
		return errors.New("the store was opened since the plan was made: run the repair again")
	}
	k, err := r.keeper(s)
	if err != nil {
		return err
	}
	for _, name := range p.keep {
		if err := k.copyFile(name, 0, -1); err != nil {
			return err
		}
	}
	m, _, err := meta.Open(s.fs, true) // Open writes the copies
	if err != nil {
		return metaError(err)
	}
	s.setMeta(m)
	s.room.segmentBytes = m.Store().SegmentBytes
	steps := r.fileSteps(s, k, p)
	for _, step := range steps {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// fileSteps lists what is done to files, in order: a footer goes before the
// header, as a sealed segment is known for ours by its footer too.
func (r *repairer) fileSteps(s *Store, k *keeper, p *repairPlan) (steps []func() error) {
	for _, id := range slices.Sorted(maps.Keys(p.sidecars)) {
		steps = append(steps, func() error { return r.replaceSidecar(s, k, id, p.sidecars[id]) })
	}
	for _, id := range p.headers {
		steps = append(steps, func() error { return r.replaceHeader(s, k, id) })
	}
	for _, id := range p.footers {
		steps = append(steps, func() error { return r.cutFooter(s, k, id) })
	}
	if p.rebuild != "" {
		steps = append(steps, func() error { return k.move(indexDir) })
	}
	return steps
}

// replaceSidecar puts a new tombstone file in the place of a damaged one.
func (r *repairer) replaceSidecar(s *Store, k *keeper, id uint64, ts []disk.Tombstone) error {
	name := disk.SidecarName(id)
	if err := k.copyFile(name, 0, -1); err != nil {
		return err
	}
	p, err := s.encodeSidecar(id, ts)
	if err != nil {
		return fmt.Errorf("tombstones of segment %d: %w", id, err)
	}
	// Under segments/ a half written file would be a strange one for good.
	if err := replaceFileVia(s.fs, path.Join(k.dir, path.Base(name)+".new"), name, p); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	r.report.done(RepairTombstones, id)
	return nil
}

// replaceHeader writes the header page of a segment, of which all is known but
// the class: that is taken from what is there, and only eviction asks for it.
func (r *repairer) replaceHeader(s *Store, k *keeper, id uint64) error {
	name := disk.SegmentName(id)
	if err := k.copyFile(name, 0, disk.PageBytes); err != nil {
		return err
	}
	f, err := s.fs.Open(name, vfs.ReadWrite)
	if err != nil {
		return fmt.Errorf("header of %s: %w", name, err)
	}
	page := make([]byte, disk.PageBytes)
	_ = readFullAt(f, page, 0) // what cannot be read is of no use
	h := disk.SegmentHeader{UUID: s.uuid, Segment: id, SizeBytes: s.room.segmentBytes, Class: disk.GuessClass(page)}
	err = disk.EncodeSegmentHeader(page, h, s.key)
	if err == nil {
		_, err = f.WriteAt(page, 0)
	}
	if err == nil {
		err = f.Datasync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("header of %s: %w", name, err)
	}
	r.report.done(RepairHeader, id)
	return nil
}

// cutFooter takes the footer off a sealed segment, if it has a trailer that
// says where it begins: Open gives it a new one. One without is none that is
// sealed, and Open gives it one in any case.
func (r *repairer) cutFooter(s *Store, k *keeper, id uint64) error {
	name := disk.SegmentName(id)
	f, err := s.fs.Open(name, vfs.ReadWrite)
	if err != nil {
		return fmt.Errorf("footer of %s: %w", name, err)
	}
	start, size, err := trailerOf(s, f, id)
	if err == nil && size > 0 {
		if err = k.copyFile(name, start, size); err == nil {
			err = f.Truncate(start)
		}
		if err == nil {
			err = f.Sync()
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("footer of %s: %w", name, err)
	}
	r.report.done(RepairFooter, id)
	return nil
}

// trailerOf says where the footer of a segment is; no size: there is none.
func trailerOf(s *Store, f vfs.File, id uint64) (start, size int64, err error) {
	i, err := f.Stat()
	if err != nil || i.SizeBytes < 2*disk.PageBytes || i.SizeBytes%disk.PageBytes != 0 {
		return 0, 0, err
	}
	page := make([]byte, disk.PageBytes)
	if err := readFullAt(f, page, i.SizeBytes-disk.PageBytes); err != nil {
		return 0, 0, err
	}
	first, size, err := disk.DecodeTrailer(page, s.key, s.uuid, id)
	if errors.Is(err, disk.ErrCorrupt) || err == nil && int64(first)*disk.PageBytes+size != i.SizeBytes {
		return 0, 0, nil
	}
	return int64(first) * disk.PageBytes, size, err
}

// openMended opens the store: it heals the metadata, replays or gives up the
// log, makes the index if there is none, and seals what is not.
func (r *repairer) openMended(p *repairPlan) (*Store, error) {
	o := workshopOptions(r.private)
	o.Progress = func(done, total int64) { r.o.Progress("rebuild the index", done, total) }
	s, err := Open(r.dir, o)
	if err != nil {
		return nil, err
	}
	for _, kind := range []RepairKind{RepairCopy, RepairLog, RepairIndex, RepairForget} {
		r.report.done(kind, 0)
	}
	return s, nil
}

// takeOut quarantines what does not verify, still: nothing is taken out on the
// word of an earlier read.
func (r *repairer) takeOut(ctx context.Context, s *Store, p *repairPlan) error {
	for n, at := range p.bad {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if err := s.takeOutAt(ctx, at); err != nil {
			return fmt.Errorf("take out the extent at %v: %w", at, err)
		}
		for i := range r.report.Actions {
			if a := &r.report.Actions[i]; a.Segment == at.Segment && a.Page == at.Page {
				a.Done = true
			}
		}
		r.o.Progress("quarantine", int64(n+1), int64(len(p.bad)))
	}
	return s.Flush(ctx)
}

func (s *Store) takeOutAt(ctx context.Context, at disk.Address) error {
	keys, err := s.referrersOf(ctx, at)
	if err != nil {
		return err
	}
	if len(keys) == 0 {
		if s.segs[at.Segment] == nil {
			return nil // gone with its segment
		}
		return s.vol.AppendTombstones(at.Segment, []disk.Tombstone{{Kind: disk.TombstoneQuarantine, Page: at.Page}})
	}
	reason := s.vol.VerifyExtent(ctx, at, keys[0].HeaderSum)
	switch {
	case reason == nil:
		return nil
	case !errors.Is(reason, disk.ErrCorrupt):
		return reason // not judged: a device that fails keeps its data
	}
	before := s.count.quarantined.Load()
	s.Resume() // the plan was bounded, and each one was read again
	s.quarantine(keys[0].Key, keys[0].Entry, reason.Error())
	if s.count.quarantined.Load() == before {
		return fmt.Errorf("it could not be quarantined: %w", reason)
	}
	return nil
}

// referrersOf lists the keys whose bytes lie at an address.
func (s *Store) referrersOf(ctx context.Context, at disk.Address) (out []index.KeyEntry, err error) {
	keys, err := s.idx.SegmentKeys(ctx, at.Segment)
	for _, k := range keys {
		if k.Address == at {
			out = append(out, k)
		}
	}
	return out, err
}

// finish completes the record of what was kept.
func (r *repairer) finish(s *Store) error {
	k, err := r.keeper(s)
	if err != nil {
		return err
	}
	return k.finish(r.report)
}
