package disk

import (
	"context"
	"fmt"
	"testing"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers"
)

// BenchmarkReadBatch reads batches of 64 blocks of 1 MiB from one segment in
// a real directory, straight into the spans and through the bounce buffer.
func BenchmarkReadBatch(b *testing.B) {
	const block, batch = 1 << 20, 64
	o := testOptions(openOS(b))
	o.SegmentBytes = 80 << 20
	v := openTestVolume(b, o)
	w := create(b, v, 1)
	for n := range uint64(batch) {
		mustPut(b, w, n, block)
	}
	entries := w.Entries()
	must(b, w.Seal(entries))
	pool := aligned.NewPool(256 << 20)
	r, err := NewPreadReader(PreadOptions{Pool: pool})
	must(b, err)
	h, err := v.Acquire(1)
	must(b, err)
	mem, err := aligned.Alloc(batch * block)
	must(b, err)
	b.Cleanup(func() {
		h.Release()
		mem.Free()
		must(b, r.Close(noDeadline))
	})
	for _, wait := range []bool{true, false} {
		b.Run(fmt.Sprintf("wait=%v/direct=%v", wait, h.File(true) != nil), func(b *testing.B) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			b.SetBytes(batch * block)
			b.ReportAllocs()
			for b.Loop() {
				items := make([]tiers.Item, batch)
				for i, e := range entries {
					items[i] = tiers.Item{
						File: h, Offset: int64(e.Page+uint32(e.HeaderPages)) * PageBytes, Length: block,
						Spans: [][]byte{mem.Bytes()[i*block:][:block]}, OffHeap: true, WaitForDevice: wait,
					}
				}
				if err := r.ReadBatch(ctx, items); err != nil || items[batch-1].Err != nil {
					b.Fatal(err, items[batch-1].Err)
				}
			}
		})
	}
}

// BenchmarkWriter appends extents of 1 MiB to segments in a real directory.
func BenchmarkWriter(b *testing.B) {
	o := testOptions(openOS(b))
	o.SegmentBytes = 64 << 20
	v := openTestVolume(b, o)
	planes := blockOf(1, 1<<20)
	e := extentOf(1, planes)
	e.Address = Address{0, 1}
	buf, _, err := imageOf(e, planes)
	must(b, err)
	defer buf.Free()
	id := uint64(0)
	w := create(b, v, id)
	b.SetBytes(int64(len(buf.Bytes())))
	for b.Loop() {
		page, ok := w.Reserve(e.Pages(), 200)
		if !ok {
			must(b, w.Seal(nil))
			must(b, v.Unlink(id))
			id++
			w = create(b, v, id)
			page, _ = w.Reserve(e.Pages(), 200)
		}
		must(b, w.WriteAt(page, buf.Bytes()))
		must(b, w.Done(page, nil))
	}
	must(b, w.Close())
}
