package aligned

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// BenchmarkDirectRead reads a file of 64 MiB past the page cache, a 1 MiB
// block with its header page at a time, into buffers on huge and on small
// pages. SEALSTONE_BENCH_DIR names the directory; the default is the
// temporary one.
func BenchmarkDirectRead(b *testing.B) {
	const total, block = 64 << 20, 1<<20 + PageBytes
	dir := os.Getenv("SEALSTONE_BENCH_DIR")
	if dir == "" {
		dir = b.TempDir()
	}
	name := filepath.Join(dir, "direct-read.tmp")
	data := make([]byte, total)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(data)
	if err := os.WriteFile(name, data, 0o600); err != nil {
		b.Fatal(err)
	}
	defer os.Remove(name)
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		b.Skipf("%s refuses O_DIRECT: %v", dir, err)
	}
	defer unix.Close(fd)
	_ = unix.Fsync(fd)
	for _, small := range []bool{false, true} {
		name := "huge"
		if small {
			name = "small"
		}
		b.Run(name, func(b *testing.B) {
			p := New(Options{LimitBytes: total, SmallPages: small})
			defer p.Close()
			b.SetBytes(total / block * block)
			var before, after unix.Rusage
			_ = unix.Getrusage(unix.RUSAGE_SELF, &before)
			for b.Loop() {
				for off := int64(0); off+block <= total; off += block {
					buf, err := p.TryGet(block)
					if err != nil {
						b.Fatal(err)
					}
					if n, err := unix.Pread(fd, buf.Bytes(), off); n != block || err != nil {
						b.Fatal(n, err)
					}
					buf.Free()
				}
			}
			_ = unix.Getrusage(unix.RUSAGE_SELF, &after)
			cpu := float64(after.Utime.Nano()+after.Stime.Nano()-before.Utime.Nano()-before.Stime.Nano()) / 1e9
			b.ReportMetric(cpu/(float64(b.N)*float64(total/block*block)/(1<<30)), "cpu-s/GiB")
		})
	}
}
