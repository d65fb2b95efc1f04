package check

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sealstone/sealstone/gpu/driver"
)

// measureCopies copies between device memory and both kinds of host memory, and
// compares what comes back with what was sent.
func measureCopies(ctx context.Context, c *driver.Context, sizes []int64, during time.Duration) (speeds []Speed, err error) {
	sizes, short := fitting(c, sizes)
	if len(sizes) == 0 {
		return nil, short
	}
	b, err := newBench(c)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	most := slices.Max(sizes)
	dev, err := b.device(most)
	if err != nil {
		return nil, err
	}
	pageable, err := b.host(most)
	if err != nil {
		return nil, err
	}
	if speeds, err = b.copyBoth(ctx, "pageable", dev, pageable, sizes, during); err != nil {
		return speeds, err
	}
	pinned, err := b.pinned(most)
	if err != nil {
		return speeds, err
	}
	more, err := b.copyBoth(ctx, "pinned", dev, pinned, sizes, during)
	return append(speeds, more...), errors.Join(err, short)
}

// copyBoth measures both directions for each size.
func (b *bench) copyBoth(ctx context.Context, kind string, dev driver.DevicePtr, mem []byte, sizes []int64, during time.Duration) ([]Speed, error) {
	var speeds []Speed
	for _, n := range sizes {
		p := mem[:n]
		fill(p)
		sent := bytes.Clone(p)
		in, err := measure(ctx, kind+" to device", n, during, func() error { return b.toDevice(dev, p) })
		if err != nil {
			return speeds, err
		}
		clear(p)
		out, err := measure(ctx, kind+" to host", n, during, func() error { return b.toHost(p, dev) })
		if err != nil {
			return append(speeds, in), err
		}
		speeds = append(speeds, in, out)
		if !bytes.Equal(p, sent) {
			return speeds, brokenf("%d bytes copied from %s memory to the device and back are not the same", n, kind)
		}
	}
	return speeds, nil
}
