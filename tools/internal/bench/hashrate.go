package bench

import (
	"runtime"
	"sync"
	"time"

	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tools/internal/cputime"
)

// hashTime is how long the sums are measured in each round.
const hashTime = 150 * time.Millisecond

// hashing is the rate of the store's sums over memory, on all processors.
type hashing struct {
	gibPerSecond float64
	cpuPerGiB    float64
}

// measureHash takes the chunk sums of the buffers, over and over. Together
// they are as large as the batches under way, so, as in a read, the bytes come
// from memory and not from a cache.
func measureHash(buffers [][]byte) hashing {
	workers := runtime.GOMAXPROCS(0)
	var all []byte
	for _, b := range buffers {
		if len(b) > len(all) {
			all = b
		}
	}
	share := len(all) / workers / sums.ChunkBytes * sums.ChunkBytes
	if share == 0 {
		share = len(all)
		workers = 1
	}
	bytes := make([]int64, workers)
	var group sync.WaitGroup
	cpu, begin := cputime.Process(), time.Now()
	for w := range workers {
		group.Go(func() { bytes[w] = hashUntil(all[w*share:(w+1)*share], begin.Add(hashTime)) })
	}
	group.Wait()
	gib := float64(0)
	for _, n := range bytes {
		gib += float64(n) / (1 << 30)
	}
	return hashing{
		gibPerSecond: divide(gib, time.Since(begin).Seconds()),
		cpuPerGiB:    divide((cputime.Process() - cpu).Seconds(), gib),
	}
}

// hashUntil returns how many bytes of p it took sums of.
func hashUntil(p []byte, end time.Time) (bytes int64) {
	dst := make([]uint64, 0, len(p)/sums.ChunkBytes+1)
	for {
		dst = sums.Chunks(dst[:0], p)
		bytes += int64(len(p))
		if !time.Now().Before(end) {
			return bytes
		}
	}
}
