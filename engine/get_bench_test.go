package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/sealstone/sealstone/engine/layout"
)

// benchDir is a directory on the file system to measure: SEALSTONE_BENCH_DIR,
// or one for temporary files.
func benchDir(b *testing.B) string {
	if d := os.Getenv("SEALSTONE_BENCH_DIR"); d != "" {
		p, err := os.MkdirTemp(d, "bench")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = os.RemoveAll(p) })
		return p
	}
	return b.TempDir()
}

// benchStore holds blocks of one plane on a real file system.
type benchStore struct {
	s      *Store
	n      *Namespace
	blocks int
	size   int
}

func newBenchStore(b *testing.B, size, blocks int) *benchStore {
	b.Helper()
	s, err := Open(filepath.Join(benchDir(b), "store"), Options{
		CapacityBytes: int64(size+8192)*int64(blocks)*2 + 512*mib, MaxBlockBytes: 4 * mib,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { mustClose(b, s) })
	l := layout.Opaque("bench")
	l.Planes = []layout.Plane{{Name: "kv"}}
	n, err := s.Namespace(context.Background(), l, "", NamespaceOptions{})
	if err != nil {
		b.Fatal(err)
	}
	bs := &benchStore{s: s, n: n, blocks: blocks, size: size}
	for i := range blocks {
		r := putOne(n, PutBlock{Hash: hashOf(i), Planes: []PlaneData{{Name: "kv", Spans: [][]byte{contentOf(i, 0, size)}}}})
		if r.Status != StatusOK {
			b.Fatal(r.Err)
		}
	}
	if err := s.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
	return bs
}

// BenchmarkGet reads batches of 64 blocks in a random order, each block once,
// into memory of the store straight, by a copy, and by a copy into the heap.
func BenchmarkGet(b *testing.B) {
	const batch = 64
	for _, size := range []int{1 << 20, 256 << 10, 16 << 10} {
		bs := newBenchStore(b, size, max(batch*4, (256<<20)/size))
		mem, err := bs.s.NewBuffer(batch * size)
		if err != nil {
			b.Fatal(err)
		}
		for _, wait := range []bool{true, false} {
			b.Run(fmt.Sprintf("size=%d/straight=%v", size, wait), func(b *testing.B) {
				order := rand.Perm(bs.blocks)
				b.SetBytes(int64(batch * size))
				b.ReportAllocs()
				next := 0
				for b.Loop() {
					blocks := make([]GetBlock, batch)
					for i := range blocks {
						blocks[i] = GetBlock{Hash: hashOf(order[next%len(order)]), Parts: []Part{{Spans: [][]byte{mem.Bytes()[i*size:][:size]}}}}
						next++
					}
					for _, r := range bs.n.Get(context.Background(), blocks, GetOptions{WaitForDevice: wait}) {
						if r.Status != StatusOK {
							b.Fatal(r.Err)
						}
					}
				}
			})
		}
		mem.Free()
	}
}
