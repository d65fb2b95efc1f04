package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/tiers/disk"
)

// VerifyOptions configures Verify.
type VerifyOptions struct {
	// Progress is told how many bytes of segments have been gone through, one
	// call at a time.
	Progress func(doneBytes, totalBytes int64)
	// Block is told the verdict on every stored block and on every extent that
	// is none, one call at a time, in no particular order. Its error ends
	// Verify. Without an index these are the blocks that a rebuild may find.
	Block func(BlockVerdict) error
	// Workers is how many segments are read at a time; each takes 4 MiB and
	// what the index holds for one segment. Default 4, at most 64.
	Workers int
	// BytesPerSecond bounds the reading of segments, by all workers together.
	// Default 0, no bound.
	BytesPerSecond int64
	// NoDiagnosis leaves bad bytes unexplained: to look for a flipped bit takes
	// up to a second of processor time a chunk, 32 times at most.
	NoDiagnosis bool
	// Sample has only a part of the extents read. Default all of them.
	Sample Sample
}

const (
	defaultVerifyWorkers = 4
	maxVerifyWorkers     = 64
)

// Verify reads every byte of a closed store and reports what is damaged:
// both copies of STORE and NAMESPACES, the log, each segment with all its
// extents, footer and tombstones, and the index, whose every entry must lead
// to an extent that says the same. Nothing in the directory is changed.
//
// What a crash leaves is no damage: a torn tail of the log, records that are
// not applied, unsealed segments, extents that nothing refers to. Neither is
// a missing index, which the next Open rebuilds.
//
// A nil error says that all was read (of a sample: all of it), not that all is
// well: see VerifyReport.Damaged. When the context ends the report so far
// comes with its error; see VerifyReport.Interrupted. Other errors come
// without a report: ErrLocked (the store is in use), ErrNoStore,
// ErrUnsupported, ErrInvalid, that of Block, those of the file system.
func Verify(ctx context.Context, dir string, o VerifyOptions) (*VerifyReport, error) {
	return verify(ctx, dir, o, privateOptions{})
}

func verify(ctx context.Context, dir string, o VerifyOptions, private privateOptions) (r *VerifyReport, err error) {
	orDefault(&o.Workers, min(defaultVerifyWorkers, runtime.GOMAXPROCS(0)))
	if o.Workers < 1 || o.Workers > maxVerifyWorkers {
		return nil, invalidf("%d workers; 1 to %d are allowed", o.Workers, maxVerifyWorkers)
	}
	if err := o.Sample.validate(); err != nil {
		return nil, err
	}
	pace, err := newPacer(o.BytesPerSecond)
	if err != nil {
		return nil, err
	}
	r = newVerifyReport(dir, o.Sample)
	f, err := openOffline(dir, private)
	var lost *meta.DamagedError
	if errors.As(err, &lost) {
		v := &verifier{o: o, out: &findings{r: r}}
		v.metadataLost(lost)
		return r, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	v := &verifier{offline: f, o: o, out: &findings{r: r}, pace: pace}
	err = v.run(ctx)
	v.finish()
	switch {
	case err == nil:
		return r, nil
	case ctx.Err() != nil && v.blockErr == nil:
		r.Interrupted = true
		return r, fmt.Errorf("engine: verify %s: %w", dir, err)
	}
	return nil, fmt.Errorf("engine: verify %s: %w", dir, err)
}

// verifier is a Verify under way.
type verifier struct {
	*offline
	o   VerifyOptions
	out *findings
	// drops is the highest sequence dropped of a key, logged the keys that the
	// log has in unsealed segments, where no index knows. See verify_rebuild.go.
	drops  map[index.Key]uint64
	once   sync.Once // of drops, where there is an index
	logged map[uint64][]index.KeyEntry

	misplaced        misplaced
	diagnoses, flips atomic.Int64 // how many were made, and how many searches for a bit

	pace  *pacer
	share uint64       // of the sample, see sample.go
	done  atomic.Int64 // bytes gone through
	total int64

	tell     sync.Mutex // Progress and Block are called under it
	blockErr error      // what Block returned
}

func (v *verifier) run(ctx context.Context) error {
	v.out.r.UUID = fmt.Sprintf("%x", v.s.uuid)
	segments := v.s.vol.Segments()
	for _, i := range segments {
		v.total += i.SizeBytes
	}
	v.share = v.o.Sample.share(v.total)
	v.metadata()
	v.log()
	referred, err := v.index(ctx)
	if err != nil {
		return err
	}
	if err := v.missing(ctx, segments, referred); err != nil {
		return err
	}
	v.collectForRebuild(segments)
	if err := v.segments(ctx, segments); err != nil {
		return err
	}
	v.strange()
	return v.findMisplaced(ctx, segments)
}

// finish puts the report in order.
func (v *verifier) finish() {
	r := v.out.r
	r.NotReadBytes = v.total - r.Segments.FileBytes + r.NotReadBytes
	r.Namespaces = v.out.namespaces(v.s.meta.Namespaces())
	slices.SortStableFunc(r.Damage, func(a, b Damage) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Offset, b.Offset))
	})
	slices.Sort(r.Notes)
}

// segments goes through all segments, some at a time.
func (v *verifier) segments(ctx context.Context, list []disk.SegmentInfo) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	work := make(chan disk.SegmentInfo)
	var wg sync.WaitGroup
	for range min(v.o.Workers, len(list)) {
		wg.Go(func() {
			for i := range work {
				if err := v.segment(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	for _, i := range list {
		if ctx.Err() != nil {
			break
		}
		select {
		case work <- i:
		case <-ctx.Done():
		}
	}
	close(work)
	wg.Wait()
	return context.Cause(ctx)
}

// advance counts n bytes as gone through.
func (v *verifier) advance(n int64) {
	v.done.Add(n)
	if v.o.Progress == nil {
		return
	}
	v.tell.Lock()
	defer v.tell.Unlock()
	v.o.Progress(v.done.Load(), v.total)
}
