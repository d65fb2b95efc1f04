package aligned

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkPoolGetFree is the cost of a buffer of an image: block and header.
func BenchmarkPoolGetFree(b *testing.B) {
	for _, size := range []int{8 << 10, 256<<10 + PageBytes, 1<<20 + PageBytes} {
		for _, held := range []int{0, 32} {
			b.Run(fmt.Sprintf("KiB=%d/held=%d", size>>10, held), func(b *testing.B) {
				p := NewPool(256 << 20)
				defer p.Close()
				for range held {
					buf, err := p.TryGet(size)
					if err != nil {
						b.Fatal(err)
					}
					defer buf.Free()
				}
				b.ReportAllocs()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						buf, err := p.Get(context.Background(), size)
						if err != nil {
							b.Error(err)
							return
						}
						buf.Free()
					}
				})
			})
		}
	}
}

// BenchmarkFirstTouch is what memory costs that was never there before: taken
// from a new pool and written to once a page.
func BenchmarkFirstTouch(b *testing.B) {
	const total = 64 << 20
	for _, small := range []bool{false, true} {
		name := "huge"
		if small {
			name = "small"
		}
		b.Run(name, func(b *testing.B) {
			b.SetBytes(total)
			for b.Loop() {
				p := New(Options{LimitBytes: total, SmallPages: small})
				buf, err := p.TryGet(total)
				if err != nil {
					b.Fatal(err)
				}
				touch(buf.Bytes())
				buf.Free()
				_ = p.Close()
			}
		})
	}
}
