package sums

import "testing"

func BenchmarkChunks1MiB(b *testing.B) {
	plane := pattern(1 << 20)
	dst := make([]uint64, 0, 16)
	b.SetBytes(int64(len(plane)))
	b.ReportAllocs()
	for b.Loop() {
		dst = Chunks(dst[:0], plane)
	}
}

func BenchmarkContent64Planes(b *testing.B) {
	lens := make([]int64, 64)
	chunks := make([]uint64, 64)
	b.ReportAllocs()
	for b.Loop() {
		Content(lens, chunks)
	}
}

func BenchmarkKeySumPage(b *testing.B) {
	k, p := testKey(), pattern(4096)
	b.SetBytes(int64(len(p)))
	b.ReportAllocs()
	for b.Loop() {
		k.Sum(DomainExtentHeader, p[:24], p[32:])
	}
}
