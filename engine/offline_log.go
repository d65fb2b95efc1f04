package engine

import (
	"context"
	"errors"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/wal"
)

func (f *offline) readIndexState(ctx context.Context) (wal.LSN, map[uint64]int64, error) {
	applied, err := f.s.idx.Applied(ctx)
	if err != nil {
		return 0, nil, err
	}
	live, err := f.s.idx.Live(ctx)
	return wal.LSN(applied), live, err
}

// changes is what the records that are not applied yet will do to the index.
type changes struct {
	records  int
	unproven int // behind the durable mark, and their extents do not verify
	// keys are those touched, with what they will hold; nil: nothing.
	keys map[index.Key]*index.Entry
	// segments lists, for a segment, the touched keys that will lie in it.
	segments map[uint64][]index.Key
}

// errDropBatch ends an update of the index that was only made to be read.
var errDropBatch = errors.New("engine: batch is not kept")

// pendingChanges applies the log to a batch that is then dropped. Memory: the
// keys of the records that a crash left unapplied.
func (f *offline) pendingChanges() (*changes, error) {
	c := &changes{keys: map[index.Key]*index.Entry{}, segments: map[uint64][]index.Key{}}
	recs, err := f.pendingRecords(c)
	if err != nil {
		return c, err
	}
	var buried []buriedKey
	for _, i := range f.s.vol.Segments() {
		buried = append(buried, f.s.buriedIn(i.ID)...)
	}
	if len(recs) == 0 && len(buried) == 0 {
		return c, nil
	}
	a := f.s.newApplication()
	// Not bounded by a context: only a call that has returned may be read.
	err = f.s.idx.Update(context.Background(), f.s.live, func(b *index.Batch) error {
		for _, r := range recs {
			if err := c.touch(b, r); err != nil {
				return err
			}
			if err := a.apply(b, r); err != nil {
				return err
			}
		}
		for _, k := range buried {
			if err := c.finish(a, b, k); err != nil {
				return err
			}
		}
		return errors.Join(errDropBatch, c.settle(b))
	})
	if !errors.Is(err, errDropBatch) || f.s.idx.Err() != nil {
		return nil, errors.Join(err, f.s.idx.Err())
	}
	return c, nil
}

// pendingRecords are the records that Open will apply.
func (f *offline) pendingRecords(c *changes) ([]*record, error) {
	var recs []*record
	defer f.rec.verifiers.close()
	_, err := wal.Recover(f.s.logOptions(), f.rec.applied, func(w wal.Record) error {
		r, err := decodeRecord(w.Data)
		if err != nil {
			return err
		}
		r.lsn, r.end = w.LSN, w.End
		if r.end > f.rec.log.Mark && !f.rec.seemsProven(r) {
			c.unproven++
			return nil
		}
		recs = append(recs, r)
		return nil
	})
	c.records = len(recs)
	return recs, err
}

// touch notes, before a record is applied, whose entries it may change.
func (c *changes) touch(b *index.Batch, r *record) error {
	if r.Kind != recordEvict {
		c.keys[r.Key] = nil
	}
	var others []index.KeyEntry
	var err error
	switch r.Kind {
	case recordMove:
		others, err = b.Referrers(r.From)
	case recordQuarantine:
		others, err = b.Referrers(r.Entry.Address)
	case recordEvict:
		others, err = b.SegmentKeys(r.Segment)
	}
	for _, o := range others {
		c.keys[o.Key] = nil
	}
	return err
}

// finish does what Open does for a tombstone that has no record.
func (c *changes) finish(a *application, b *index.Batch, k buriedKey) error {
	touched := []index.KeyEntry{{Key: k.Key}}
	if k.kind == disk.TombstoneQuarantine {
		var err error
		if touched, err = b.Referrers(k.at); err != nil {
			return err
		}
	}
	had, err := a.finish(b, k)
	for _, o := range touched {
		if had {
			c.keys[o.Key] = nil
		}
	}
	return err
}

// settle reads what the touched keys hold in the end.
func (c *changes) settle(b *index.Batch) error {
	for k := range c.keys {
		e, ok, err := b.Get(k)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		c.keys[k] = &e
		c.segments[e.Address.Segment] = append(c.segments[e.Address.Segment], k)
		if e.IsAlias() && e.Own.Address.Segment != e.Address.Segment {
			c.segments[e.Own.Address.Segment] = append(c.segments[e.Own.Address.Segment], k)
		}
	}
	return nil
}
