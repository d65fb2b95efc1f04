//go:build unix

package disk

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// benchFile is a file of random bytes in the directory that
// SEALSTONE_BENCH_DIR names, or in the temporary directory.
type benchFile struct {
	buffered, direct vfs.File
}

func (*benchFile) ID() uint64 { return 1 }
func (*benchFile) Retain()    {}
func (*benchFile) Release()   {}
func (f *benchFile) File(direct bool) vfs.File {
	if direct {
		return f.direct
	}
	return f.buffered
}

func newBenchFile(b *testing.B, sizeBytes int) *benchFile {
	b.Helper()
	name := b.TempDir()
	if dir := os.Getenv("SEALSTONE_BENCH_DIR"); dir != "" {
		var err error
		name, err = os.MkdirTemp(dir, "sealstone-bench-")
		must(b, err)
		b.Cleanup(func() { _ = os.RemoveAll(name) })
	}
	fs, err := vfs.OpenOS(name)
	must(b, err)
	f := &benchFile{}
	f.buffered, err = fs.Open("file", vfs.Create)
	must(b, err)
	block := benchMemory(b, 1<<20)
	for off := 0; off < sizeBytes; off += len(block) {
		for i := range block { // a compressed device shall be none: each page is one byte over and over
			block[i] = byte(off>>20) + byte(i>>12)
		}
		_, err = f.buffered.WriteAt(block, int64(off))
		must(b, err)
	}
	must(b, f.buffered.Sync())
	if f.direct, err = fs.Open("file", vfs.ReadWrite|vfs.Direct); err != nil {
		b.Logf("no direct I/O: %v", err)
		f.direct = nil
	}
	b.Cleanup(func() {
		_ = f.buffered.Close()
		if f.direct != nil {
			_ = f.direct.Close()
		}
		_ = fs.Close()
	})
	return f
}

func benchMemory(b *testing.B, n int) []byte {
	mem, err := aligned.Alloc(n)
	must(b, err)
	b.Cleanup(mem.Free)
	clear(mem.Bytes())
	return mem.Bytes()
}

// benchPaths are the ways that are compared.
func benchPaths(b *testing.B, pool *aligned.Pool) map[string]tiers.ReadWriter {
	out := map[string]tiers.ReadWriter{}
	pread, err := NewPreadReader(PreadOptions{Pool: pool})
	must(b, err)
	out["pread"] = pread
	buffered, err := NewPreadReader(PreadOptions{Pool: pool, Buffered: true})
	must(b, err)
	out["buffered"] = buffered
	if rings, err := NewUringReader(UringOptions{Pread: PreadOptions{Pool: pool}}); err == nil {
		out["uring"] = rings
	} else {
		b.Log(err)
	}
	b.Cleanup(func() {
		for _, r := range out {
			must(b, r.Close(context.Background()))
		}
	})
	return out
}

// cpuSeconds is what the process has used.
func cpuSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// BenchmarkPaths moves batches of 64 blocks, by path and size of the block:
// reads alone, reads whose blocks are summed in Done, and writes.
func BenchmarkPaths(b *testing.B) {
	const batch = 64
	for _, block := range []int{1 << 20, 256 << 10, 4 << 10} {
		sizeBytes := max(4*batch*block, 64<<20)
		f := newBenchFile(b, sizeBytes)
		mem := benchMemory(b, batch*block)
		paths := benchPaths(b, aligned.NewPool(64<<20))
		for _, what := range []string{"read", "verify", "write"} {
			for _, path := range []string{"pread", "uring", "buffered"} {
				r := paths[path]
				if r == nil {
					continue
				}
				b.Run(fmt.Sprintf("%s/%dKiB/%s", what, block>>10, path), func(b *testing.B) {
					runPath(b, r, f, mem, block, sizeBytes, what)
				})
			}
		}
	}
}

func runPath(b *testing.B, r tiers.ReadWriter, f *benchFile, mem []byte, block, sizeBytes int, what string) {
	n := len(mem) / block
	items := make([]tiers.Item, n)
	var done func(*tiers.Item)
	if what == "verify" {
		done = func(it *tiers.Item) {
			for p := it.Spans[0]; len(p) > 0; {
				k := min(len(p), sums.ChunkBytes)
				sums.Chunk(p[:k])
				p = p[k:]
			}
		}
	}
	spans := make([][1][]byte, n)
	b.SetBytes(int64(len(mem)))
	b.ReportAllocs()
	cpu, off := cpuSeconds(b), int64(0)
	for b.Loop() {
		for i := range items {
			spans[i][0] = mem[i*block:][:block]
			items[i] = tiers.Item{File: f, Offset: off, Length: block, Spans: spans[i][:], OffHeap: true, Done: done}
			if off += int64(block); off >= int64(sizeBytes) {
				off = 0
			}
		}
		var err error
		if what == "write" {
			err = r.WriteBatch(items)
		} else {
			err = r.ReadBatch(context.Background(), items)
		}
		must(b, err)
		for i := range items {
			must(b, items[i].Err)
		}
	}
	gib := float64(b.N) * float64(len(mem)) / (1 << 30)
	b.ReportMetric((cpuSeconds(b)-cpu)/gib, "cpu-s/GiB")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkUringShape compares rings and bytes per system call, on reads
// whose blocks are summed in Done.
func BenchmarkUringShape(b *testing.B) {
	const batch = 64
	for _, block := range []int{1 << 20, 256 << 10, 4 << 10} {
		sizeBytes := max(4*batch*block, 64<<20)
		f := newBenchFile(b, sizeBytes)
		mem := benchMemory(b, batch*block)
		pool := aligned.NewPool(64 << 20)
		for _, rings := range []int{1, 2, 4} {
			for _, submit := range []int{256 << 10, 1 << 20, 4 << 20} {
				u := newUring(b, UringOptions{Rings: rings, SubmitBytes: submit, Pread: PreadOptions{Pool: pool}})
				b.Run(fmt.Sprintf("%dKiB/rings=%d/submit=%dKiB", block>>10, rings, submit>>10), func(b *testing.B) {
					runPath(b, u, f, mem, block, sizeBytes, "verify")
				})
				must(b, u.Close(context.Background()))
			}
		}
	}
}

// BenchmarkPreadWorkers compares numbers of workers, on reads whose blocks
// are summed in Done.
func BenchmarkPreadWorkers(b *testing.B) {
	const batch = 64
	for _, block := range []int{1 << 20, 256 << 10, 4 << 10} {
		sizeBytes := max(4*batch*block, 64<<20)
		f := newBenchFile(b, sizeBytes)
		mem := benchMemory(b, batch*block)
		pool := aligned.NewPool(64 << 20)
		for _, workers := range []int{4, 8, 16, 32, 64} {
			r, err := NewPreadReader(PreadOptions{Workers: workers, Pool: pool})
			must(b, err)
			b.Run(fmt.Sprintf("%dKiB/workers=%d", block>>10, workers), func(b *testing.B) {
				runPath(b, r, f, mem, block, sizeBytes, "verify")
			})
			must(b, r.Close(context.Background()))
		}
	}
}

// BenchmarkOneBlock reads a single block at a time, by path: the latency.
func BenchmarkOneBlock(b *testing.B) {
	for _, block := range []int{1 << 20, 4 << 10} {
		const sizeBytes = 64 << 20
		f := newBenchFile(b, sizeBytes)
		mem := benchMemory(b, block)
		paths := benchPaths(b, aligned.NewPool(64<<20))
		for _, path := range []string{"pread", "uring"} {
			r := paths[path]
			if r == nil {
				continue
			}
			b.Run(fmt.Sprintf("%dKiB/%s", block>>10, path), func(b *testing.B) {
				runPath(b, r, f, mem, block, sizeBytes, "read")
			})
		}
		b.Run(fmt.Sprintf("%dKiB/call", block>>10), func(b *testing.B) {
			b.SetBytes(int64(block))
			off := int64(0)
			for b.Loop() {
				_, err := f.direct.ReadAt(mem, off)
				must(b, err)
				off = (off + int64(block)) % sizeBytes
			}
		})
	}
}
