package kernel

import (
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/aligned"
)

// guardBytes of poison lie before, between and behind the regions on the device.
const guardBytes = 256

// bench is the memory and the stream of a proof.
//
//	device: guard | arena | guard | memory of the job | guard
//	host:   arena | memory of the job | the device memory as it came back
type bench struct {
	c          device
	vectors    []vector
	arenaBytes int // a multiple of 64
	jobBytes   int // of the job on the device, rounded up likewise
	device     driver.DevicePtr
	host       *aligned.Buffer
	stream     driver.Stream
	job        *Job

	pinned, streaming bool
}

// newBench takes everything that a proof needs. It frees what it has on an error.
func newBench(c device) (*bench, error) {
	b := &bench{c: c}
	b.vectors, b.arenaBytes = vectorArena()
	b.jobBytes = roundUp(int(DeviceBytes(len(b.vectors))))
	if err := b.open(); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *bench) open() (err error) {
	c := b.c
	if b.device, err = c.MemAlloc(int64(b.deviceBytes())); err != nil {
		return fmt.Errorf("%d bytes of device memory: %w", b.deviceBytes(), err)
	}
	if b.host, err = aligned.Alloc(b.hostBytes()); err != nil {
		return fmt.Errorf("%d bytes of host memory: %w", b.hostBytes(), err)
	}
	all := b.host.Bytes()
	if err := c.HostRegister(pointer(all), int64(cap(all))); err != nil {
		return fmt.Errorf("pinning %d bytes of host memory: %w", cap(all), err)
	}
	b.pinned = true
	if b.stream, err = c.StreamCreate(); err != nil {
		return fmt.Errorf("a stream: %w", err)
	}
	b.streaming = true
	at := b.device + driver.DevicePtr(2*guardBytes+b.arenaBytes)
	b.job, err = NewJob(at, int64(b.jobBytes), all[b.arenaBytes:][:b.hostJobBytes()])
	return err
}

func roundUp(n int) int { return (n + vectorGap - 1) / vectorGap * vectorGap }

func (b *bench) deviceBytes() int { return 3*guardBytes + b.arenaBytes + b.jobBytes }

func (b *bench) hostJobBytes() int { return roundUp(int(HostBytes(len(b.vectors)))) }

func (b *bench) hostBytes() int { return b.arenaBytes + b.hostJobBytes() + b.deviceBytes() }

// arena is the host's side of the arena.
func (b *bench) arena() []byte { return b.host.Bytes()[:b.arenaBytes] }

// back is where the device memory comes back to.
func (b *bench) back() []byte {
	return b.host.Bytes()[b.arenaBytes+b.hostJobBytes():][:b.deviceBytes()]
}

// guards are the offsets of the guards in device memory.
func (b *bench) guards() [3]int {
	return [3]int{0, guardBytes + b.arenaBytes, b.deviceBytes() - guardBytes}
}

// upload poisons the device memory, status words included, and copies the arena
// there.
func (b *bench) upload(poison byte) error {
	clear(b.back())
	if err := b.c.MemsetD8Async(b.device, poison, int64(b.deviceBytes()), b.stream); err != nil {
		return err
	}
	return b.c.CopyHtoDAsync(b.deviceArena(), pointer(b.arena()), int64(b.arenaBytes), b.stream)
}

// download copies the device memory back and waits for the whole stream.
func (b *bench) download() error {
	err := b.c.CopyDtoHAsync(pointer(b.back()), b.device, int64(b.deviceBytes()), b.stream)
	return errors.Join(err, b.c.StreamSynchronize(b.stream))
}

// close waits for the stream and frees what the bench has. Host memory that the
// driver does not let go stays mapped: a device may still write to it. Errors
// are not told: they come after the outcome, or are what made it.
func (b *bench) close() {
	if b.streaming {
		_ = b.c.StreamSynchronize(b.stream)
		_ = b.c.StreamDestroy(b.stream)
	}
	if b.pinned && b.c.HostUnregister(pointer(b.host.Bytes())) != nil {
		b.host = nil
	}
	b.host.Free()
	if b.device != 0 {
		_ = b.c.MemFree(b.device)
	}
}
