package engine

import (
	"context"
	"fmt"
	"math/rand"
	"testing"
)

// BenchmarkView reads batches of 64 blocks in a random order, as BenchmarkGet
// does, and what a get of the same blocks into the heap takes.
func BenchmarkView(b *testing.B) {
	const batch = 64
	for _, size := range []int{1 << 20, 4 << 10} {
		bs := newBenchStore(b, size, max(batch*4, min(4096, (256<<20)/size)))
		dst := make([]byte, batch*size)
		order := rand.Perm(bs.blocks)
		for _, count := range []int{batch, 1} {
			next := 0
			hashes := func() [][]byte {
				out := make([][]byte, count)
				for i := range out {
					out[i] = hashOf(order[next%len(order)])
					next++
				}
				return out
			}
			b.Run(fmt.Sprintf("size=%d/batch=%d/view", size, count), func(b *testing.B) {
				b.SetBytes(int64(count * size))
				b.ReportAllocs()
				for b.Loop() {
					for _, v := range bs.n.View(context.Background(), hashes(), ViewOptions{}) {
						if v.Status != StatusOK {
							b.Fatal(v.Err)
						}
						v.Release()
					}
				}
			})
			b.Run(fmt.Sprintf("size=%d/batch=%d/get", size, count), func(b *testing.B) {
				b.SetBytes(int64(count * size))
				b.ReportAllocs()
				for b.Loop() {
					blocks := make([]GetBlock, count)
					for i, h := range hashes() {
						blocks[i] = GetBlock{Hash: h, Parts: []Part{{Spans: [][]byte{dst[i*size:][:size]}}}}
					}
					for _, r := range bs.n.Get(context.Background(), blocks, GetOptions{}) {
						if r.Status != StatusOK {
							b.Fatal(r.Err)
						}
					}
				}
			})
		}
	}
}
