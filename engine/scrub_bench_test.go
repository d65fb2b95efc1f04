//go:build unix

package engine

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkScrub makes one pass as fast as it goes, and tells what processor
// time it takes.
func BenchmarkScrub(b *testing.B) {
	for _, size := range []int{1 << 20, 256 << 10, 16 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			bs := newBenchStore(b, size, (128<<20)/size)
			start, read := processTime(), int64(0)
			for b.Loop() {
				r, err := bs.s.ScrubNow(context.Background(), ScrubOptions{BytesPerSecond: 1 << 40})
				if err != nil || r.Blocks != int64(bs.blocks) || len(r.Findings) > 0 || r.CachedBytes > 0 {
					b.Fatal(r, err)
				}
				read += r.Bytes
			}
			b.SetBytes(read / int64(b.N))
			b.ReportMetric((processTime()-start).Seconds()/(float64(read)/float64(gib)), "cpu-s/GiB")
		})
	}
}

// BenchmarkScrubBeside gets one block of 256 KiB after the other, without and
// with a pass of the scrubber beside it at its highest rate by default.
func BenchmarkScrubBeside(b *testing.B) {
	const size = 256 << 10
	for _, scrubbing := range []bool{false, true} {
		b.Run(fmt.Sprintf("scrubbing=%v", scrubbing), func(b *testing.B) {
			bs := newBenchStore(b, size, 512)
			ctx, cancel := context.WithCancel(context.Background())
			var beside sync.WaitGroup
			if scrubbing {
				beside.Go(func() {
					for ctx.Err() == nil {
						_, _ = bs.s.ScrubNow(ctx, ScrubOptions{})
					}
				})
			}
			p := make([]byte, size)
			var took []time.Duration
			for i := 0; b.Loop(); i++ {
				begin := time.Now()
				r := bs.n.Get(context.Background(), []GetBlock{{Hash: hashOf(i * 97 % bs.blocks), Parts: []Part{{Spans: [][]byte{p}}}}}, GetOptions{})[0]
				took = append(took, time.Since(begin))
				if r.Status != StatusOK {
					b.Fatal(r.Err)
				}
			}
			cancel()
			beside.Wait()
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
		})
	}
}
