package main

import (
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"
)

var badgerStore = contender{
	name: "badger", module: "github.com/dgraph-io/badger/v4", verified: "nothing by default",
	settings: "values of 1 KiB and more in the value log, no compression, a write batch a call, no transaction conflicts; gets by 16 goroutines a call; one Sync at the end",
	open:     openBadger,
}

type badgerDB struct {
	plainMemory
	db *badger.DB
}

func openBadger(dir string, _ work) (store, error) {
	o := badger.DefaultOptions(dir).WithLogger(nil).WithMetricsEnabled(false).
		WithValueThreshold(1 << 10).WithCompression(options.None).WithDetectConflicts(false).
		WithBlockCacheSize(64 << 20)
	db, err := badger.Open(o)
	if err != nil {
		return nil, err
	}
	return &badgerDB{db: db}, nil
}

// Put implements store.
func (b *badgerDB) Put(keys, values [][]byte) error {
	batch := b.db.NewWriteBatch()
	defer batch.Cancel()
	for i := range keys {
		if err := batch.Set(keys[i], values[i]); err != nil {
			return err
		}
	}
	return batch.Flush()
}

// Get implements store.
func (b *badgerDB) Get(keys, dst [][]byte) error {
	return parallel(readers, len(keys), func(i int) error {
		return b.db.View(func(t *badger.Txn) error {
			item, err := t.Get(keys[i])
			if err != nil {
				return err
			}
			return item.Value(func(v []byte) error { return copyAll(dst[i], v) })
		})
	})
}

var errLength = errors.New("a value has another length than was put")

func copyAll(dst, src []byte) error {
	if len(dst) != len(src) {
		return fmt.Errorf("%w: %d instead of %d", errLength, len(src), len(dst))
	}
	copy(dst, src)
	return nil
}

// Sync implements store.
func (b *badgerDB) Sync() error { return b.db.Sync() }

// Close implements store.
func (b *badgerDB) Close() error { return b.db.Close() }
