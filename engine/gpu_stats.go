package engine

import (
	"errors"
	"sync/atomic"

	"github.com/sealstone/sealstone/gpu"
)

// DevicePathStats count blocks of GetToDevice on one path, and the bytes that
// were asked for of them. Totals only grow and begin at Open.
type DevicePathStats struct {
	// Attempted were given to the path. Each came to be one of Verified,
	// Corrupt and Failed, but where its caller had left before.
	Attempted, AttemptedBytes int64
	// Verified arrived, every chunk compared with its sum.
	Verified, VerifiedBytes int64
	// Corrupt had bytes that do not match their sum.
	Corrupt int64
	// Failed are the others that did not arrive.
	Failed int64
	// FellBack were brought by the host after this path had not.
	FellBack, FellBackBytes int64
}

// DevicePutStats count blocks of PutFromDevice.
type DevicePutStats struct {
	// Copied reached pinned memory, Failed did not.
	Copied, CopiedBytes, Failed int64
	// Sealed had their sums taken on the GPU, before the copy.
	Sealed int64
}

// pathCounters are the running totals of a path.
type pathCounters struct {
	attempted, attemptedBytes atomic.Int64
	verified, verifiedBytes   atomic.Int64
	corrupt, failed           atomic.Int64
	back, backBytes           atomic.Int64
}

func (c *pathCounters) attempt(bytes int64) {
	c.attempted.Add(1)
	c.attemptedBytes.Add(bytes)
}

func (c *pathCounters) verify(bytes int64) {
	c.verified.Add(1)
	c.verifiedBytes.Add(bytes)
}

// refuse counts a block that the store did not bring to pinned memory.
func (c *pathCounters) refuse(st Status) {
	if st == StatusCorrupt {
		c.corrupt.Add(1)
		return
	}
	c.failed.Add(1)
}

// refuseCopy counts a block that did not reach the GPU.
func (c *pathCounters) refuseCopy(err error) {
	if errors.Is(err, gpu.ErrMismatch) {
		c.corrupt.Add(1)
		return
	}
	c.failed.Add(1)
}

func (c *pathCounters) fellBack(bytes int64) {
	c.back.Add(1)
	c.backBytes.Add(bytes)
}

func (c *pathCounters) stats() DevicePathStats {
	return DevicePathStats{
		Attempted: c.attempted.Load(), AttemptedBytes: c.attemptedBytes.Load(),
		Verified: c.verified.Load(), VerifiedBytes: c.verifiedBytes.Load(),
		Corrupt: c.corrupt.Load(), Failed: c.failed.Load(),
		FellBack: c.back.Load(), FellBackBytes: c.backBytes.Load(),
	}
}

// deviceCounters are those of everything between the store and GPUs.
type deviceCounters struct {
	bounce, direct                         pathCounters
	outBlocks, outBytes, outFailed, sealed atomic.Int64
}

func (c *deviceCounters) puts() DevicePutStats {
	return DevicePutStats{
		Copied: c.outBlocks.Load(), CopiedBytes: c.outBytes.Load(), Failed: c.outFailed.Load(), Sealed: c.sealed.Load(),
	}
}
