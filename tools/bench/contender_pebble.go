package main

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable/block"
)

const pebbleSettings = "no write-ahead log (one Flush at the end makes all durable), memtables of 64 MiB, no compression, bloom filters, cache of 64 MiB; gets by 16 goroutines a call"

var pebbleInline = contender{
	name: "pebble", module: "github.com/cockroachdb/pebble/v2", verified: "sums of blocks",
	settings: pebbleSettings + "; values in the tables",
	open:     func(dir string, _ work) (store, error) { return openPebble(dir, false) },
}

var pebbleBlobs = contender{
	name: "pebble-blobs", module: "github.com/cockroachdb/pebble/v2", verified: "sums of blocks",
	settings: pebbleSettings + "; values of 1 KiB and more in blob files",
	open:     func(dir string, _ work) (store, error) { return openPebble(dir, true) },
}

type pebbleDB struct {
	plainMemory
	db    *pebble.DB
	cache *pebble.Cache
}

func openPebble(dir string, blobs bool) (store, error) {
	cache := pebble.NewCache(64 << 20)
	o := &pebble.Options{
		Cache: cache, DisableWAL: true, MemTableSize: 64 << 20, MemTableStopWritesThreshold: 4,
		L0CompactionThreshold: 4, L0StopWritesThreshold: 24, LBaseMaxBytes: 512 << 20,
		FormatMajorVersion: pebble.FormatNewest, Logger: quiet{},
	}
	for i := range o.Levels {
		o.Levels[i].Compression = func() *block.CompressionProfile { return block.NoCompression }
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	o.TargetFileSizes[0] = 64 << 20
	if blobs {
		o.Experimental.ValueSeparationPolicy = func() pebble.ValueSeparationPolicy {
			return pebble.ValueSeparationPolicy{
				Enabled: true, MinimumSize: 1 << 10, MaxBlobReferenceDepth: 10,
				RewriteMinimumAge: 5 * time.Minute, TargetGarbageRatio: 0.3,
			}
		}
	}
	db, err := pebble.Open(dir, o)
	if err != nil {
		cache.Unref()
		return nil, err
	}
	return &pebbleDB{db: db, cache: cache}, nil
}

// quiet takes Pebble's lines away from standard error.
type quiet struct{}

// Infof implements pebble.Logger.
func (quiet) Infof(string, ...any) {}

// Errorf implements pebble.Logger.
func (quiet) Errorf(string, ...any) {}

// Fatalf implements pebble.Logger.
func (quiet) Fatalf(format string, args ...any) { pebble.DefaultLogger.Fatalf(format, args...) }

// Put implements store.
func (p *pebbleDB) Put(keys, values [][]byte) error {
	for i := range keys {
		if err := p.db.Set(keys[i], values[i], pebble.NoSync); err != nil {
			return err
		}
	}
	return nil
}

// Get implements store.
func (p *pebbleDB) Get(keys, dst [][]byte) error {
	return parallel(readers, len(keys), func(i int) error {
		v, closer, err := p.db.Get(keys[i])
		if err != nil {
			return err
		}
		return errors.Join(copyAll(dst[i], v), closer.Close())
	})
}

// Sync implements store.
func (p *pebbleDB) Sync() error { return p.db.Flush() }

// Close implements store.
func (p *pebbleDB) Close() error {
	defer p.cache.Unref()
	return p.db.Close()
}
