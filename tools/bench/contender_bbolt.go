package main

import (
	"path/filepath"

	bolt "go.etcd.io/bbolt"
)

var bboltStore = contender{
	name: "bbolt", module: "go.etcd.io/bbolt", verified: "nothing",
	settings: "a transaction a call, each synced (there is no safe way without); freelist in memory; gets by 16 goroutines a call",
	open:     openBbolt,
}

type bboltDB struct {
	plainMemory
	db *bolt.DB
}

var bucket = []byte("blocks")

func openBbolt(dir string, _ work) (store, error) {
	db, err := bolt.Open(filepath.Join(dir, "blocks.db"), 0o600, &bolt.Options{
		NoFreelistSync: true, FreelistType: bolt.FreelistMapType,
	})
	if err != nil {
		return nil, err
	}
	err = db.Update(func(t *bolt.Tx) error {
		_, err := t.CreateBucketIfNotExists(bucket)
		return err
	})
	if err != nil {
		db.Close() // the error that matters is there
		return nil, err
	}
	return &bboltDB{db: db}, nil
}

// Put implements store.
func (b *bboltDB) Put(keys, values [][]byte) error {
	return b.db.Update(func(t *bolt.Tx) error {
		for i := range keys {
			if err := t.Bucket(bucket).Put(keys[i], values[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// Get implements store.
func (b *bboltDB) Get(keys, dst [][]byte) error {
	return parallel(readers, len(keys), func(i int) error {
		return b.db.View(func(t *bolt.Tx) error { return copyAll(dst[i], t.Bucket(bucket).Get(keys[i])) })
	})
}

// Sync implements store.
func (b *bboltDB) Sync() error { return b.db.Sync() }

// Close implements store.
func (b *bboltDB) Close() error { return b.db.Close() }
