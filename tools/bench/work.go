package main

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/sealstone/sealstone/tools/internal/stamp"
)

var errUsage = errors.New("wrong usage")

// work is what every store has to do.
type work struct {
	BlockBytes  int64 `json:"block_size_bytes"`
	Blocks      int   `json:"blocks"` // whole batches
	BatchBlocks int   `json:"batch_blocks"`
	Calls       int   `json:"calls_at_a_time"`
}

// bytes of all blocks.
func (w work) bytes() int64 { return w.BlockBytes * int64(w.Blocks) }

func (w work) batchBytes() int64 { return w.BlockBytes * int64(w.BatchBlocks) }

func newWork(blockBytes, bytes int64, batch int) (work, error) {
	w := work{BlockBytes: blockBytes, BatchBlocks: batch, Calls: 2}
	if blockBytes < 4096 || blockBytes%4096 != 0 || blockBytes > 64<<20 {
		return w, fmt.Errorf("%w: blocks of %d bytes; they must be pages of 4096 bytes, up to 64 MiB", errUsage, blockBytes)
	}
	if batch < 1 || w.batchBytes() > 1<<30 {
		return w, fmt.Errorf("%w: a batch of %d blocks; it must be one or more, and 1 GiB at most", errUsage, batch)
	}
	w.Blocks = int(bytes/blockBytes) / batch * batch
	if w.Blocks == 0 {
		return w, fmt.Errorf("%w: %d bytes are less than one batch of %d bytes", errUsage, bytes, w.batchBytes())
	}
	return w, nil
}

// key is the hash of a block.
func (w work) key(block int) []byte {
	h := stamp.Ref(0, block).Hash()
	return h[:]
}

// batches are the calls; those of reads are of shuffled blocks.
func (w work) batches(shuffled bool) [][]int {
	order := make([]int, w.Blocks)
	for i := range order {
		order[i] = i
	}
	if shuffled {
		random := rand.New(rand.NewPCG(1, 2))
		random.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	}
	var all [][]int
	for ; len(order) > 0; order = order[w.BatchBlocks:] {
		all = append(all, order[:w.BatchBlocks])
	}
	return all
}

// cut are the keys of a batch and the places of its values in a buffer.
func (w work) cut(batch []int, buffer []byte) (keys, values [][]byte) {
	n := int(w.BlockBytes)
	for i, block := range batch {
		keys = append(keys, w.key(block))
		values = append(values, buffer[i*n:(i+1)*n:(i+1)*n])
	}
	return keys, values
}
