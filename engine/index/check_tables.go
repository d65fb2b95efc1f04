package index

import (
	"context"
	"errors"
	"fmt"
	"path"

	"github.com/cockroachdb/pebble/v2/sstable"
)

// checkTables reads every block of every table in use, and has Pebble compare
// its sum. Reading all records does not do that: what newer tables hide, and
// filters, is not looked at then, until a compaction meets it. Only of an index
// that is opened read-only: else a compaction may remove the tables meanwhile.
func (d *DB) checkTables(ctx context.Context) error {
	if !d.opts.ReadOnly {
		return nil
	}
	levels, err := d.db.SSTables()
	if err != nil {
		return err
	}
	o := d.pebbleOptions()
	o.EnsureDefaults()
	seen := map[string]bool{} // tables may share a file
	for _, level := range levels {
		for _, t := range level {
			name := path.Join(d.opts.Dir, fmt.Sprintf("%06d.sst", uint64(t.BackingSSTNum)))
			if seen[name] {
				continue
			}
			seen[name] = true
			if err := errors.Join(ctx.Err(), d.checkTable(ctx, name, o.MakeReaderOptions())); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func (d *DB) checkTable(ctx context.Context, name string, o sstable.ReaderOptions) error {
	f, err := pebbleFS{fs: d.opts.FS, fail: &d.fail}.Open(name)
	if err != nil {
		return err
	}
	readable, err := sstable.NewSimpleReadable(f)
	if err != nil {
		return errors.Join(err, f.Close())
	}
	r, err := sstable.NewReader(ctx, readable, o)
	if err != nil {
		return errors.Join(err, readable.Close())
	}
	return errors.Join(r.ValidateBlockChecksums(), r.Close())
}
