package engine

import (
	"context"
	"math"
)

// CompactDir is [Store.Compact] for the closed store in dir. It opens the
// store as Open does, so that what a crash left is settled first; in a dry run
// nothing in dir is changed. Errors: those of Open, and of Compact.
func CompactDir(ctx context.Context, dir string, o CompactOptions) (*CompactReport, error) {
	return compactDir(ctx, dir, o, privateOptions{})
}

func compactDir(ctx context.Context, dir string, o CompactOptions, private privateOptions) (r *CompactReport, err error) {
	if o, err = o.withDefaults(); err != nil {
		return nil, err
	}
	open := workshopOptions(private)
	open.ReadOnly = o.DryRun
	err = inWorkshop(dir, open, func(s *Store) (err error) {
		// The store grows by one segment and then shrinks: whether there is
		// room for that the file system tells.
		s.room.capacityBytes, s.room.freeFloorBytes = math.MaxInt64/2, 0
		r, err = s.compact(ctx, o, true)
		return err
	})
	return r, err
}
