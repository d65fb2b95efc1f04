//go:build unix

package engine

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine/layout"
)

// BenchmarkOffload stores blocks that are all different and flushes them at
// the end, as an engine that makes room in its memory does. It runs in the
// directory that SEALSTONE_BENCH_DIR names, else in a temporary one; with
// SEALSTONE_BENCH_MIB it stores that much an iteration instead of 256 MiB.
// docs/benchmarks.md compares it with fio on the same file system.
func BenchmarkOffload(b *testing.B) {
	for _, c := range []struct {
		blockBytes, batch int
	}{{1 << 20, 64}, {256 << 10, 64}, {16 << 10, 256}, {4 << 10, 1024}} {
		for _, callers := range []int{1, 4} {
			b.Run(fmt.Sprintf("%dKiBx%d/callers=%d", c.blockBytes>>10, c.batch, callers), func(b *testing.B) {
				benchOffload(b, c.blockBytes, c.batch, callers)
			})
		}
	}
}

func benchOffload(b *testing.B, blockBytes, batch, callers int) {
	total := envInt("SEALSTONE_BENCH_MIB", 256) << 20
	if blockBytes < 64<<10 { // as many blocks as the log holds at a time
		total /= 8
	}
	batches := max(callers, total/(blockBytes*batch))
	b.SetBytes(int64(batches * batch * blockBytes))
	var cpu time.Duration
	for round := 0; b.Loop(); round++ {
		b.StopTimer()
		cpu += offloadRound(b, round, blockBytes, batch, batches, callers)
		b.StartTimer()
	}
	gib := float64(b.N) * float64(batches*batch*blockBytes) / (1 << 30)
	b.ReportMetric(cpu.Seconds()/gib, "cpu-s/GiB")
}

// offloadRound fills a new store; only puts and the flush are timed.
func offloadRound(b *testing.B, round, blockBytes, batch, batches, callers int) time.Duration {
	dir, err := os.MkdirTemp(os.Getenv("SEALSTONE_BENCH_DIR"), "offload-")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := Open(dir, Options{CapacityBytes: 6 << 30, MaxInflightBytes: 1 << 30, MaxPendingBytes: 4 << 30})
	if err != nil {
		b.Fatal(err)
	}
	defer mustClose(b, s)
	n, err := s.Namespace(context.Background(), layout.Opaque("bench"), "", NamespaceOptions{})
	if err != nil {
		b.Fatal(err)
	}
	sources := make([][]byte, callers)
	for i := range sources {
		buf, err := s.NewBuffer(batch * blockBytes)
		if err != nil {
			b.Fatal(err)
		}
		defer buf.Free()
		sources[i] = buf.Bytes()
		_, _ = rand.NewChaCha8([32]byte{byte(i)}).Read(sources[i])
	}
	before := processTime()
	b.StartTimer()
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			for k := i; k < batches; k += callers {
				offloadBatch(b, n, sources[i], blockBytes, uint64(round)<<40|uint64(k)<<20)
			}
		})
	}
	wg.Wait()
	if err := s.Flush(context.Background()); err != nil {
		b.Error(err)
	}
	b.StopTimer()
	return processTime() - before
}

// offloadBatch puts one batch. A stamp in each page makes its bytes its own.
func offloadBatch(b *testing.B, n *Namespace, source []byte, blockBytes int, id uint64) {
	for off := 0; off < len(source); off += 4 << 10 {
		binary.LittleEndian.PutUint64(source[off:], id+uint64(off/blockBytes))
	}
	blocks := make([]PutBlock, len(source)/blockBytes)
	for i := range blocks {
		h := make([]byte, 32)
		binary.LittleEndian.PutUint64(h, id+uint64(i))
		blocks[i] = PutBlock{Hash: h, Planes: []PlaneData{{Spans: [][]byte{source[i*blockBytes:][:blockBytes]}}}}
	}
	for i, r := range n.Put(context.Background(), blocks, PutOptions{}) {
		if r.Status != StatusOK {
			b.Errorf("block %d: %v %v", i, r.Status, r.Err)
			return
		}
	}
}

func envInt(name string, otherwise int) int {
	var n int
	if _, err := fmt.Sscan(os.Getenv(name), &n); err != nil || n < 1 {
		return otherwise
	}
	return n
}

func processTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
