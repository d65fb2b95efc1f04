package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/tools/internal/bench"
)

var sealstoneStore = contender{
	name: "sealstone", module: "github.com/sealstone/sealstone", verified: "every byte",
	settings: "defaults; a group sync at least every second or 256 MiB; gets into buffers of the store",
	open:     openSealstone,
}

// sealstone is driven through the same adapter as by the command sealstone
// bench.
type sealstone struct{ bench.Store }

func openSealstone(dir string, w work) (store, error) {
	s, err := bench.OpenEngine(context.Background(), dir, bench.Shape{
		BlockBytes: w.BlockBytes, Planes: 1, CapacityBytes: w.bytes()*3/2 + 1<<30,
		InflightBytes: int64(w.Calls) * w.batchBytes(), Path: bench.PathAuto, Existing: true,
	})
	if err != nil {
		return nil, err
	}
	return sealstone{s}, nil
}

func failures(answers []bench.Answer, want int) error {
	var errs []error
	for _, a := range answers {
		if !a.OK {
			errs = append(errs, fmt.Errorf("%s: %w", a.Status, a.Err))
		}
	}
	if len(answers) != want {
		errs = append(errs, fmt.Errorf("%d answers for %d blocks", len(answers), want))
	}
	return errors.Join(errs...)
}

// Put implements store.
func (s sealstone) Put(keys, values [][]byte) error {
	return failures(s.Store.Put(context.Background(), blocksOf(keys, values)), len(keys))
}

// Get implements store.
func (s sealstone) Get(keys, dst [][]byte) error {
	return failures(s.Store.Get(context.Background(), blocksOf(keys, dst)), len(keys))
}

func blocksOf(keys, data [][]byte) []bench.Block {
	blocks := make([]bench.Block, len(keys))
	for i := range keys {
		blocks[i] = bench.Block{Hash: keys[i], Data: data[i], Planes: 1}
		if i > 0 {
			blocks[i].Parent = keys[i-1]
		}
	}
	return blocks
}

// Sync implements store.
func (s sealstone) Sync() error { return s.Flush(context.Background()) }

// Close implements store.
func (s sealstone) Close() error { return s.Store.Close(context.Background()) }
