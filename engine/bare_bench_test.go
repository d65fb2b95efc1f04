package engine

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
)

// BenchmarkBare is what BenchmarkGet can come to at best: as many threads as
// there are processors read blocks past the page cache into memory of a batch
// and take their chunk sums, with no store around them.
func BenchmarkBare(b *testing.B) {
	const batch = 64
	for _, size := range []int{1 << 20, 256 << 10, 16 << 10} {
		blocks := max(batch*4, (256<<20)/size)
		f := bareFile(b, size, blocks)
		mem, err := aligned.Alloc(batch * size)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			order := rand.Perm(blocks)
			b.SetBytes(int64(batch * size))
			round := 0
			for b.Loop() {
				bareBatch(b, f, mem.Bytes(), size, batch, func(i int) int64 {
					return int64(order[(round*batch+i)%blocks]) * int64(size)
				})
				round++
			}
		})
		mem.Free()
	}
}

var bareSink atomic.Uint64

func bareBatch(b *testing.B, f vfs.File, mem []byte, size, batch int, at func(i int) int64) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			sum := uint64(0)
			for i := int(next.Add(1)) - 1; i < batch; i = int(next.Add(1)) - 1 {
				p := mem[i*size:][:size]
				if _, err := f.ReadAt(p, at(i)); err != nil {
					b.Error(err)
					return
				}
				for ; len(p) > 0; p = p[min(len(p), sums.ChunkBytes):] {
					sum ^= sums.Chunk(p[:min(len(p), sums.ChunkBytes)])
				}
			}
			bareSink.Add(sum)
		})
	}
	wg.Wait()
}

// bareFile is a file of incompressible blocks, opened past the page cache.
func bareFile(b *testing.B, size, blocks int) vfs.File {
	b.Helper()
	fs, err := vfs.OpenOS(benchDir(b))
	if err != nil {
		b.Fatal(err)
	}
	f, err := fs.Open("bare", vfs.Create|vfs.Direct)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _, _ = f.Close(), fs.Close() })
	p, err := aligned.Alloc(size)
	if err != nil {
		b.Fatal(err)
	}
	defer p.Free()
	for i := range blocks {
		copy(p.Bytes(), contentOf(i, 0, size))
		if _, err := f.WriteAt(p.Bytes(), int64(i)*int64(size)); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Datasync(); err != nil {
		b.Fatal(err)
	}
	return f
}
