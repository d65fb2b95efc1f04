package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/tiers/disk"
)

// DropOptions says which blocks DropSelected drops.
type DropOptions struct {
	Selection
	// OlderThan, if not 0, means the blocks of segments to which nothing was
	// written for that long. The store keeps no time for a block: one that was
	// put, or moved on by an eviction or a compaction, into a segment that was
	// still in use later counts as younger than it is, never as older.
	OlderThan time.Duration
	// DryRun only counts.
	DryRun bool
	// Progress is told how many of the segments were gone through.
	Progress func(done, total int64)
}

// DropReport is what DropSelected did, or would do.
type DropReport struct {
	DryRun     bool            `json:"dry_run"`
	Blocks     int64           `json:"blocks"`
	RawBytes   int64           `json:"raw_bytes"`
	Namespaces []DropNamespace `json:"namespaces"`
	// UnknownAge counts segments that OlderThan left alone because the file
	// system does not say when they were written.
	UnknownAge  int  `json:"segments_of_unknown_age"`
	Interrupted bool `json:"interrupted"`
}

// DropNamespace is the part of one namespace in a drop.
type DropNamespace struct {
	Number   uint32 `json:"number"`
	Tenant   string `json:"tenant"`
	Blocks   int64  `json:"blocks"`
	RawBytes int64  `json:"raw_bytes"`
	// NewEpoch: the namespace was dropped whole, by a new epoch.
	NewEpoch bool `json:"new_epoch"`
}

// DropSelected drops the blocks that are meant, for good, as Namespace.Drop
// does: not even an index rebuilt from segments brings one back. Namespaces
// that are meant as a whole get a new epoch instead, which hides all of their
// blocks at once; handles opened before answer StaleEpoch. The space comes back
// with an eviction or a compaction. What is put meanwhile may stay.
//
// When ctx ends first, what was dropped by then stays dropped; the report is
// returned with the error.
func (s *Store) DropSelected(ctx context.Context, o DropOptions) (*DropReport, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.ops.done()
	return s.dropSelected(ctx, o)
}

// DropDir is [Store.DropSelected] for the closed store in dir; in a dry run
// nothing in dir is changed. Errors: those of Open, and of DropSelected.
func DropDir(ctx context.Context, dir string, o DropOptions) (*DropReport, error) {
	return dropDir(ctx, dir, o, privateOptions{})
}

func dropDir(ctx context.Context, dir string, o DropOptions, private privateOptions) (r *DropReport, err error) {
	open := workshopOptions(private)
	open.ReadOnly = o.DryRun
	err = inWorkshop(dir, open, func(s *Store) (err error) {
		r, err = s.dropSelected(ctx, o)
		return err
	})
	return r, err
}

func (s *Store) dropSelected(ctx context.Context, o DropOptions) (*DropReport, error) {
	if o.OlderThan < 0 {
		return nil, invalidf("drop: OlderThan %v is negative", o.OlderThan)
	}
	f, err := s.newBlockFilter(o.Selection)
	if err != nil {
		return nil, err
	}
	if !o.DryRun {
		err = s.writable()
		if err == nil {
			err = s.settleFor(ctx)
		}
		if err != nil {
			return nil, fmt.Errorf("engine: drop: %w", err)
		}
	}
	d := &dropping{s: s, o: o, filter: f, report: &DropReport{DryRun: o.DryRun}, spaces: map[uint32]*DropNamespace{}}
	if d.isWhole() {
		err = d.wholeNamespaces(ctx)
	} else {
		err = d.bySegment(ctx)
	}
	d.finish()
	if err != nil {
		d.report.Interrupted = errors.Is(err, context.Canceled) || errors.Is(err, ErrClosed)
		err = fmt.Errorf("engine: drop: %w", err)
	}
	return d.report, err
}

// dropping is a DropSelected under way.
type dropping struct {
	s      *Store
	o      DropOptions
	filter *blockFilter
	report *DropReport
	spaces map[uint32]*DropNamespace
}

// isWhole reports whether namespaces are meant and nothing but namespaces.
func (d *dropping) isWhole() bool {
	o := d.o
	return o.OlderThan == 0 && len(o.Hashes) == 0 && o.FirstSequence == 0 && o.EndSequence == 0 &&
		(len(o.Namespaces) > 0 || o.Tenant != nil)
}

func (d *dropping) count(k index.KeyEntry) {
	n := d.spaces[k.Namespace]
	if n == nil {
		n = &DropNamespace{Number: k.Namespace}
		d.spaces[k.Namespace] = n
	}
	n.Blocks++
	n.RawBytes += k.RawBytes
}

func (d *dropping) finish() {
	d.report.Namespaces = []DropNamespace{}
	d.s.mu.Lock()
	defer d.s.mu.Unlock()
	for number, n := range d.spaces {
		if sp := d.s.spaces[number]; sp != nil {
			n.Tenant = sp.Tenant
		}
		d.report.Blocks += n.Blocks
		d.report.RawBytes += n.RawBytes
		d.report.Namespaces = append(d.report.Namespaces, *n)
	}
	slices.SortFunc(d.report.Namespaces, func(a, b DropNamespace) int { return cmp.Compare(a.Number, b.Number) })
}

// wholeNamespaces gives each namespace with blocks a new epoch.
func (d *dropping) wholeNamespaces(ctx context.Context) error {
	err := d.s.eachBlock(ctx, d.filter, func(k index.KeyEntry) error {
		d.count(k)
		return ctx.Err()
	})
	if err != nil {
		d.spaces = map[uint32]*DropNamespace{} // counted, and nothing done
		return err
	}
	for number, n := range d.spaces {
		n.NewEpoch = true
		if d.o.DryRun {
			continue
		}
		if err := d.s.newEpoch(number); err != nil {
			delete(d.spaces, number)
			return err
		}
	}
	return nil
}

// newEpoch raises the floor of a namespace above all that was put.
func (s *Store) newEpoch(number uint32) error {
	s.mu.Lock()
	sp := s.spaces[number]
	var m meta.Namespace
	if sp != nil {
		m = sp.Namespace
	}
	n := s.handleLocked(m, nil)
	s.mu.Unlock()
	_, err := n.BumpEpoch(context.Background())
	return err
}

// dropBatchMax bounds the tombstones that are written with one sync.
const dropBatchMax = 4096

// bySegment goes through the segments: a drop's tombstone stands in the one
// that its block is at home in, so that one sync serves many, and it is the
// segment that has an age.
func (d *dropping) bySegment(ctx context.Context) error {
	infos := d.s.vol.Segments()
	now := d.s.o.private.now()
	for i, info := range infos {
		if err := d.mayGoOn(ctx); err != nil {
			return err
		}
		if d.o.Progress != nil {
			d.o.Progress(int64(i), int64(len(infos)))
		}
		if !d.isOld(info, now) {
			continue
		}
		if err := d.segment(ctx, info.ID); err != nil {
			return err
		}
	}
	return nil
}

func (d *dropping) mayGoOn(ctx context.Context) error {
	if d.s.closing.Load() {
		return ErrClosed
	}
	return ctx.Err()
}

// isOld reports whether the last write to a segment is long enough ago. An
// Open that seals a segment writes to it: what counts then is the time before.
func (d *dropping) isOld(i disk.SegmentInfo, now time.Time) bool {
	if d.o.OlderThan == 0 {
		return true
	}
	written := i.Modified
	if written.IsZero() {
		if f, err := d.s.fs.Stat(disk.SegmentName(i.ID)); err == nil {
			written = f.Modified
		}
	}
	if written.IsZero() {
		d.report.UnknownAge++
		return false
	}
	return now.Sub(written) >= d.o.OlderThan
}

// segment drops the blocks meant that are at home in a segment.
func (d *dropping) segment(ctx context.Context, id uint64) error {
	keys, err := d.s.segmentKeys(ctx, id)
	if err != nil {
		return err
	}
	keys = slices.DeleteFunc(keys, func(k index.KeyEntry) bool { return k.Home().Address.Segment != id || !d.filter.has(k) })
	for batch := range slices.Chunk(keys, dropBatchMax) {
		if !d.o.DryRun {
			if err := d.drop(id, batch); err != nil {
				return err
			}
			// Durable before they count (rule dropdur); applied, so that the
			// log can be trimmed.
			if err := d.s.settleFor(context.WithoutCancel(ctx)); err != nil {
				return err
			}
		}
		for _, k := range batch {
			d.count(k)
		}
	}
	return nil
}

// drop is what tryDrop does, for many blocks at home in one segment.
func (d *dropping) drop(id uint64, keys []index.KeyEntry) error {
	s := d.s
	guest := s.beGuest(disk.Address{Segment: id}, guestBuries)
	if guest == nil {
		return fmt.Errorf("%w: segment %d was being evicted; drop again what is left", ErrShed, id)
	}
	defer s.endGuest(&guest)
	ts := make([]disk.Tombstone, len(keys))
	recs := make([]*record, len(keys))
	for i, k := range keys {
		home := k.Home().Address
		ts[i] = disk.Tombstone{Kind: disk.TombstoneDrop, Namespace: k.Namespace, Hash: []byte(k.Hash), Seq: k.Seq, Page: home.Page}
		recs[i] = &record{Kind: recordDrop, Key: k.Key, Entry: index.Entry{Seq: k.Seq}, From: home}
	}
	s.o.private.points("drop:before-tombstone")
	if err := s.vol.AppendTombstones(id, ts); err != nil {
		if isNoSpace(err) {
			s.noSpace(err)
		}
		return err
	}
	s.o.private.points("drop:before-log")
	for group := range slices.Chunk(recs, groupRecordsMax) {
		s.orderMu.Lock()
		err := s.logInOrder(group, func(bool) {})
		s.orderMu.Unlock()
		if err != nil {
			return err
		}
		s.count.dropped.Add(int64(len(group)))
	}
	return nil
}
