package client

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/server"
)

// BenchmarkSharedGet measures gets of 1 MiB blocks into memory that is shared
// with a server, against the same store's gets in process into memory of
// Store.NewBuffer, both with WaitForDevice and from the device. The two take
// turns within one run, and the ratio is of the medians:
//
//	go test -run '^$' -bench SharedGet -benchtime 200x ./tools/client
//
// It reports the medians of a batch by the server and in process, and
// in-process/server as "ratio": 1 is as fast, 0.9 the target. "same-memory" is
// in process too, into memory of the kind that is shared: where the kernel gives
// no huge pages for it (/sys/kernel/mm/transparent_hugepage/shmem_enabled) a
// device has 512 times the pages to map, which no server can make up for, and
// "same-memory-ratio" is what the server itself costs.
func BenchmarkSharedGet(b *testing.B) {
	const size, blocks = 1 << 20, 128
	r := newRig(b, server.Options{})
	c := mustDial(b, r.unix, Options{})
	n := mustSpace(b, c)
	region := mustRegion(b, c, 64*size)
	own, err := r.store.NewBuffer(64 * size)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(own.Free)
	_, like, err := newShared(64 * size)
	if err != nil {
		b.Fatal(err)
	}
	registered, err := r.store.RegisterMemory(like, engine.MemoryOptions{Guarded: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		registered.Release()
		unmapShared(like)
	})
	inside, err := r.store.Namespace(context.Background(), testLayout(), n.Info().Tenant, engine.NamespaceOptions{})
	if err != nil {
		b.Fatal(err)
	}
	for id := range blocks {
		copy(region.Bytes(), contentOf(id, size))
		mustPut(b, n, blockIn(id, region.Bytes()[:size]))
	}
	if err := r.store.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
	for _, batch := range []int{16, 64} {
		b.Run(fmt.Sprint("batch=", batch), func(b *testing.B) {
			b.SetBytes(int64(batch * size))
			var by [3][]time.Duration
			round := 0
			for b.Loop() {
				for k := range by {
					way := (round + k) % len(by) // who begins changes
					mem, get := region.Bytes(), n.Get
					if way > 0 {
						mem, get = [][]byte{1: own.Bytes(), 2: like}[way], inside.Get
					}
					var gets []engine.GetBlock
					for i := range batch {
						gets = append(gets, wantedIn((round*batch+i)%blocks, mem[i*size:][:size]))
					}
					began := time.Now()
					for i, res := range get(context.Background(), gets, engine.GetOptions{WaitForDevice: true}) {
						if res.Status != engine.StatusOK {
							b.Fatalf("block %d: %v %v", i, res.Status, res.Err)
						}
					}
					by[way] = append(by[way], time.Since(began))
				}
				round++
			}
			shared, inProcess, same := median(by[0]), median(by[1]), median(by[2])
			b.ReportMetric(float64(shared.Nanoseconds()), "server-ns/op")
			b.ReportMetric(float64(inProcess.Nanoseconds()), "inprocess-ns/op")
			b.ReportMetric(float64(same.Nanoseconds()), "same-memory-ns/op")
			b.ReportMetric(float64(inProcess)/float64(shared), "ratio")
			b.ReportMetric(float64(same)/float64(shared), "same-memory-ratio")
		})
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}
