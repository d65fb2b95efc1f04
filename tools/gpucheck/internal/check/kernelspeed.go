package check

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/kernel"
	"github.com/sealstone/sealstone/internal/sums"
)

// queuedJobs is how many launches are put into the stream before it is waited
// for, as a busy store does.
const queuedJobs = 8

// unalignedBy is how far from a word the pieces of the slow way lie.
const unalignedBy = 1

// measureKernel verifies whole chunks, as many as fill each size: one launch at
// a time, several in a row, and at addresses that are no multiples of 8.
func measureKernel(ctx context.Context, c *driver.Context, k *kernel.Kernel, sizes []int64, during time.Duration) (speeds []Speed, err error) {
	sizes, short := fitting(c, sizes)
	if len(sizes) == 0 {
		return nil, short
	}
	v, err := newVerifier(c, k, slices.Max(sizes))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, v.bench.close()) }()
	for _, n := range sizes {
		for _, way := range []struct {
			what string
			jobs int
			add  int64
		}{{"one launch", 1, 0}, {fmt.Sprintf("%d launches in a row", queuedJobs), queuedJobs, 0}, {"one launch, unaligned", 1, unalignedBy}} {
			s, err := measure(ctx, way.what, n*int64(way.jobs), during, func() error { return v.verify(n, way.jobs, way.add) })
			if err != nil {
				return speeds, fmt.Errorf("%d MiB, %s: %w", n>>20, way.what, err)
			}
			speeds = append(speeds, s)
		}
	}
	return speeds, short
}

// verifier is device memory full of chunks whose sums are known.
type verifier struct {
	bench     *bench
	kernel    *kernel.Kernel
	arena     driver.DevicePtr
	bytes     int64
	want      []uint64 // of the chunks of the pattern that fills the arena
	unaligned []uint64 // of the same, unalignedBy further on
	jobs      []*kernel.Job
	next      int64 // where the next launch reads, so that it does not find its bytes in a cache
}

// patternBytes of random bytes are repeated over the arena.
const patternBytes = 4 << 20

func newVerifier(c *driver.Context, k *kernel.Kernel, arenaBytes int64) (*verifier, error) {
	b, err := newBench(c)
	if err != nil {
		return nil, err
	}
	v := &verifier{bench: b, kernel: k, bytes: arenaBytes}
	if err := v.open(); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return v, nil
}

func (v *verifier) open() (err error) {
	b := v.bench
	pattern, err := b.pinned(min(patternBytes, v.bytes))
	if err != nil {
		return err
	}
	fill(pattern)
	// The last unaligned piece ends behind the arena.
	if v.arena, err = b.device(v.bytes + unalignedBy); err != nil {
		return err
	}
	for at := int64(0); at < v.bytes; at += int64(len(pattern)) {
		n := min(int64(len(pattern)), v.bytes-at)
		if err := b.toDevice(v.arena+driver.DevicePtr(at), pattern[:n]); err != nil {
			return err
		}
	}
	behind := pattern[v.bytes%int64(len(pattern)):][:unalignedBy]
	if err := b.toDevice(v.arena+driver.DevicePtr(v.bytes), behind); err != nil {
		return err
	}
	v.want = sums.Chunks(nil, pattern)
	turned := append(append([]byte(nil), pattern[unalignedBy:]...), pattern[:unalignedBy]...)
	v.unaligned = sums.Chunks(nil, turned)
	return v.makeJobs(int(v.bytes / sums.ChunkBytes))
}

func (v *verifier) makeJobs(pieces int) error {
	for range queuedJobs {
		dev, err := v.bench.device(kernel.DeviceBytes(pieces))
		if err != nil {
			return err
		}
		host, err := v.bench.pinned(kernel.HostBytes(pieces))
		if err != nil {
			return err
		}
		j, err := kernel.NewJob(dev, kernel.DeviceBytes(pieces), host)
		if err != nil {
			return err
		}
		v.jobs = append(v.jobs, j)
	}
	return nil
}

// verify has so many jobs of n bytes each verified, and looks at every answer.
func (v *verifier) verify(n int64, jobs int, add int64) error {
	for _, j := range v.jobs[:jobs] {
		j.Reset()
		if v.next+n > v.bytes {
			v.next = 0
		}
		for at := v.next; at < v.next+n; at += sums.ChunkBytes {
			p := kernel.Piece{Address: uint64(v.arena) + uint64(at+add), LengthBytes: sums.ChunkBytes}
			chunk := int(at/sums.ChunkBytes) % len(v.want)
			if p.Want = v.want[chunk]; add != 0 {
				p.Want = v.unaligned[chunk]
			}
			if err := j.Add(p); err != nil {
				return err
			}
		}
		v.next += n
		if err := v.kernel.Verify(v.bench.stream, j); err != nil {
			return err
		}
	}
	if err := v.bench.sync(); err != nil {
		return err
	}
	for _, j := range v.jobs[:jobs] {
		for i := range j.Len() {
			if err := j.Verified(i); err != nil {
				return brokenf("piece %d of %d: %w", i, j.Len(), err)
			}
		}
	}
	return nil
}
