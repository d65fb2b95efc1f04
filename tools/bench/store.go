package main

import (
	"fmt"

	"github.com/sealstone/sealstone/internal/aligned"
)

// store is one of those that are compared. Its methods are called from two
// goroutines at a time.
type store interface {
	// Put stores values under keys.
	Put(keys, values [][]byte) error
	// Get reads the values of keys into dst, each of the length that was put.
	Get(keys, dst [][]byte) error
	// Sync returns when all that was put survives a power cut.
	Sync() error
	// NewBuffer is memory for values, aligned for direct I/O.
	NewBuffer(sizeBytes int) ([]byte, func(), error)
	Close() error
}

// contender is a store and how it is set up.
type contender struct {
	name string
	// module is the path of the Go module, "" for the standard library.
	module string
	// settings, and what is verified at a read, for the report.
	settings, verified string
	open               func(dir string, w work) (store, error)
}

// contenders in the order of the report.
var contenders = []contender{
	sealstoneStore, fileBuffered, fileDirect, badgerStore, pebbleInline, pebbleBlobs, bboltStore,
}

func contenderOf(name string) (contender, error) {
	var names []string
	for _, c := range contenders {
		if c.name == name {
			return c, nil
		}
		names = append(names, c.name)
	}
	return contender{}, fmt.Errorf("%w: no store %q; there are %v", errUsage, name, names)
}

// plainMemory gives buffers outside the Go heap to stores that have none of
// their own.
type plainMemory struct{}

// NewBuffer implements store.
func (plainMemory) NewBuffer(sizeBytes int) ([]byte, func(), error) {
	b, err := aligned.Alloc(sizeBytes)
	if err != nil {
		return nil, nil, err
	}
	return b.Bytes(), b.Free, nil
}

// readers is how many goroutines a call of a store without batches uses.
const readers = 16
