package bench

import (
	"context"
	"time"

	"github.com/sealstone/sealstone/tools/internal/replay"
)

// blocksOf are the replay blocks of a batch in a worker's buffer.
func (b *bench) blocksOf(buffer []byte, round int, batch []int) []replay.Block {
	n := int(b.config.BlockBytes)
	blocks := make([]replay.Block, len(batch))
	for i, at := range batch {
		hash := ref(round, at).Hash()
		blocks[i] = replay.Block{Hash: hash[:], Data: buffer[i*n : (i+1)*n : (i+1)*n]}
		if i > 0 {
			blocks[i].Parent = blocks[i-1].Hash
		}
	}
	return blocks
}

func (b *bench) put(ctx context.Context, buffer []byte, round int, batch []int, m *measured) {
	blocks := b.blocksOf(buffer, round, batch)
	for i, at := range batch {
		stamp(blocks[i].Data, ref(round, at))
	}
	begin := time.Now()
	results := b.store.Put(ctx, blocks)
	m.calls = append(m.calls, time.Since(begin))
	m.count(len(blocks), b.config.BlockBytes, results)
}

func (b *bench) get(ctx context.Context, buffer []byte, round int, batch []int, m *measured) {
	blocks := b.blocksOf(buffer, round, batch)
	for i := range blocks {
		clear(blocks[i].Data[:stampBytes])
	}
	begin := time.Now()
	results := b.store.Get(ctx, blocks)
	m.calls = append(m.calls, time.Since(begin))
	m.count(len(blocks), b.config.BlockBytes, results)
	for i, r := range results {
		if r.OK && !stamped(blocks[i].Data, ref(round, batch[i])) {
			m.wrong++
		}
	}
}

func (b *bench) match(ctx context.Context, _ []byte, round int, batch []int, m *measured) {
	hashes := make([][]byte, len(batch))
	for i, at := range batch {
		hash := ref(round, at).Hash()
		hashes[i] = hash[:]
	}
	begin := time.Now()
	n, release, err := b.store.Match(ctx, hashes)
	m.calls = append(m.calls, time.Since(begin))
	if err != nil {
		m.status("Error", int64(len(hashes)))
		m.failed += int64(len(hashes))
		return
	}
	release()
	m.status("OK", int64(n))
	if missing := int64(len(hashes) - n); missing > 0 {
		m.status("Miss", missing)
		m.failed += missing
	}
}
