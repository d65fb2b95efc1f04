package uring

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sealstone/sealstone/internal/aligned"
)

// BenchmarkRead reads past the page cache, a few requests at a time, with and
// without registered files and buffers. SEALSTONE_BENCH_DIR names the
// directory to read in.
func BenchmarkRead(b *testing.B) {
	const fileBytes, depth = 64 << 20, 4
	buf, err := aligned.Alloc(fileBytes)
	if err != nil {
		b.Fatal(err)
	}
	defer buf.Free()
	mem := buf.Bytes()
	for i := range mem {
		mem[i] = byte(i >> 12) // a compressed device shall be none
	}
	fd := benchFile(b, mem)
	for _, size := range []int{4 << 10, 256 << 10, 1 << 20} {
		for name, entry := range map[string]func(p []byte, off int64) SQE{
			"plain":             func(p []byte, off int64) SQE { return Read(fd, p, off) },
			"fixed file":        func(p []byte, off int64) SQE { return Read(0, p, off).WithFixedFile(0) },
			"fixed buffer":      func(p []byte, off int64) SQE { return ReadFixed(fd, p, off, 0) },
			"fixed file,buffer": func(p []byte, off int64) SQE { return ReadFixed(0, p, off, 0).WithFixedFile(0) },
		} {
			b.Run(fmt.Sprintf("%dKiB/%s", size>>10, name), func(b *testing.B) {
				r := benchRing(b, depth, fd, mem)
				b.SetBytes(int64(depth * size))
				start, off := cpuTime(b), 0
				for b.Loop() {
					for range depth {
						r.Push(entry(mem[off:][:size], int64(off)))
						off = (off + size) % fileBytes
					}
					if err := r.Enter(depth, 0); err != nil {
						b.Fatal(err)
					}
					for range depth {
						if c, ok := r.Next(); !ok || int(c.Res) != size {
							b.Fatalf("%+v, %v", c, ok)
						}
					}
				}
				b.ReportMetric((cpuTime(b)-start)/(float64(b.N)*float64(depth*size)/(1<<30)), "cpu-s/GiB")
			})
		}
	}
}

// benchRing makes a ring for the goroutine of one benchmark, with the file as
// file 0 and the memory as buffer 0.
func benchRing(b *testing.B, depth, fd int, mem []byte) *Ring {
	b.Helper()
	runtime.LockOSThread()
	r, err := New(depth)
	if err != nil {
		b.Skipf("no io_uring here: %v", err)
	}
	b.Cleanup(func() {
		_ = r.Close()
		runtime.UnlockOSThread()
	})
	if err := errors.Join(r.RegisterFiles(1), r.UpdateFile(0, fd), r.RegisterBuffers([][]byte{mem})); err != nil {
		b.Skipf("files or buffers can not be registered: %v", err)
	}
	return r
}

// benchFile writes a file and opens it past the page cache.
func benchFile(b *testing.B, content []byte) int {
	b.Helper()
	dir := os.Getenv("SEALSTONE_BENCH_DIR")
	if dir == "" {
		dir = b.TempDir()
	}
	f, err := os.CreateTemp(dir, "sealstone-bench-")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	b.Cleanup(func() { _ = os.Remove(f.Name()) })
	if _, err := f.Write(content); err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	fd, err := unix.Open(f.Name(), unix.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		b.Skipf("no direct I/O here: %v", err)
	}
	b.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

// cpuTime is what the process has used, in seconds.
func cpuTime(b *testing.B) float64 {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(unix.TimevalToNsec(u.Utime)+unix.TimevalToNsec(u.Stime)) / 1e9
}
