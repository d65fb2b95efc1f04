package gpu

import (
	"context"
	"fmt"
	"unsafe"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/sums"
)

// CopyOut copies blocks from the device to pinned memory: their spans are
// gathered in staging, the kernel takes the sums there if it is proven, and
// the block is copied to the host, waited for. Without the kernel the sums are
// taken of what arrived. Each block has its own answer in Err.
//
// It returns when nothing touches Src or Dst any more; the end of ctx stops
// what no lane has begun. A step that takes longer than Options.HangTimeout
// means that the device is lost.
func (d *Device) CopyOut(ctx context.Context, items []CopyOut) {
	if err := d.enter(); err != nil {
		for i := range items {
			items[i].Err, items[i].Sums, items[i].SumsOnDevice = err, nil, false
		}
		return
	}
	defer d.gate.leave()
	b := &batch{d: d, ctx: ctx, run: runCopyOut, from: d.staging}
	for i := range items {
		it := &items[i]
		it.Err, it.Sums, it.SumsOnDevice = nil, nil, false
		w := &work{index: i, host: it.Dst, length: int64(len(it.Dst)), sources: it.Src, planes: it.PlaneBytes, wantSums: it.PlaneBytes != nil}
		d.count.hostOut.attempt(w.length)
		pin, err := d.prepareOut(it)
		if err != nil {
			it.Err = err
			d.count.hostOut.end(err, 0, false)
			continue
		}
		b.add(w, pin)
	}
	b.wait(func(w *work, err error) {
		it := &items[w.index]
		if it.Err = err; err == nil {
			it.Sums, it.SumsOnDevice = w.sums, w.onDevice
		}
		d.count.hostOut.end(err, w.length, it.SumsOnDevice)
		if canaryLaw2 {
			it.Err, it.Sums = nil, w.sums
		}
	})
}

func (d *Device) prepareOut(it *CopyOut) (*Pinned, error) {
	var source, planes int64
	for i, s := range it.Src {
		if err := s.validate(); err != nil {
			return nil, fmt.Errorf("%w: source %d: %w", ErrInvalid, i, err)
		}
		source += s.LengthBytes
	}
	if source != int64(len(it.Dst)) {
		return nil, fmt.Errorf("%w: %d bytes from the device into a buffer of %d", ErrInvalid, source, len(it.Dst))
	}
	for _, n := range it.PlaneBytes {
		if n < 0 || n > source-planes {
			return nil, fmt.Errorf("%w: planes of %v bytes in a block of %d", ErrInvalid, it.PlaneBytes, source)
		}
		planes += n
	}
	if it.PlaneBytes != nil && planes != source {
		return nil, fmt.Errorf("%w: planes of %d bytes together in a block of %d", ErrInvalid, planes, source)
	}
	return d.buffers.use(it.Dst)
}

// runCopyOut is the job of a lane.
func runCopyOut(l *lane, j *job) {
	for _, w := range j.works {
		w.err = l.gather(w)
	}
	if err := l.settle("copies from their sources"); err != nil {
		j.lose(err)
		return
	}
	for _, w := range j.works {
		if w.err != nil || !w.wantSums || !l.d.sums.on() {
			continue
		}
		if err := l.sumsOnDevice(w); err != nil {
			j.lose(err)
			return
		}
	}
	for _, w := range j.works {
		if w.err != nil {
			continue
		}
		w.err = l.do("cuMemcpyDtoHAsync", func() error {
			return l.d.c.CopyDtoHAsync(unsafe.Pointer(unsafe.SliceData(w.host)), w.device, w.length, l.stream)
		})
		l.counted(w.length, w.err)
	}
	if err := l.settle("copies to the host"); err != nil {
		j.lose(err)
		return
	}
	for _, w := range j.works {
		if w.err == nil && w.wantSums && !w.onDevice {
			w.sums = sumsOfHost(w)
		}
	}
}

// gather enqueues the copies of one block into staging.
func (l *lane) gather(w *work) error {
	at := w.device
	for _, s := range w.sources {
		err := l.do("cuMemcpyDtoDAsync", func() error { return l.d.c.CopyDtoDAsync(at, s.Ptr, s.LengthBytes, l.stream) })
		l.counted(s.LengthBytes, err)
		if err != nil {
			return err
		}
		at += driver.DevicePtr(s.LengthBytes)
	}
	return nil
}

func sumsOfHost(w *work) []uint64 {
	var out []uint64
	rest := w.host
	for _, n := range w.planes {
		out = sums.Chunks(out, rest[:n])
		rest = rest[n:]
	}
	return out
}
