package gpu

import (
	"fmt"
	"unsafe"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/internal/sums"
)

// verify compares the checks of the blocks in device memory that have no error yet
// with what is there, by the kernel or, without it, by the processor. What does
// not match gets ErrMismatch. The error is of the lane as a whole: then nothing
// is known.
func (l *lane) verify(works []*work) error {
	var all []sumWanted
	for _, w := range works {
		if w.err != nil {
			continue
		}
		w.verified = len(w.checks) > 0
		for i := range w.checks {
			c := &w.checks[i]
			all = append(all, sumWanted{at: w.device + driver.DevicePtr(c.OffsetBytes), lengthBytes: c.LengthBytes, want: c.Sum, work: w, check: c})
		}
	}
	_, err := l.sums(all)
	if err != nil {
		return err
	}
	for i := range all {
		s := &all[i]
		switch {
		case s.err != nil:
			if s.work.err == nil {
				s.work.err = s.err
			}
		case s.got != s.want:
			s.work.err = fmt.Errorf("%w: %d bytes at %d have %#016x instead of %#016x",
				ErrMismatch, s.lengthBytes, s.check.OffsetBytes, s.got, s.want)
		}
	}
	for _, w := range works {
		w.verified = w.verified && w.err == nil
	}
	return nil
}

// sumWanted is a run of bytes in device memory whose sum is to be taken.
type sumWanted struct {
	at          driver.DevicePtr
	lengthBytes int64
	want        uint64
	work        *work
	check       *Check

	got uint64
	err error // no sum could be taken
}

// sums takes the sums of all, and says whether the kernel did.
func (l *lane) sums(all []sumWanted) (onDevice bool, err error) {
	if len(all) == 0 {
		return false, nil
	}
	if l.d.sums.on() {
		done, err := l.sumsByKernel(all)
		if done || err != nil {
			return done, err
		}
	}
	return false, l.sumsByCopy(all)
}

// sumsByCopy copies the bytes back to the host, as many at a time as the
// scratch memory holds, and takes their sums there.
func (l *lane) sumsByCopy(all []sumWanted) error {
	host, err := l.scratch.hostMemory(l)
	if err != nil {
		if isLost(err) {
			return err
		}
		for i := range all {
			all[i].err = err
		}
		return nil
	}
	for len(all) > 0 {
		n, used := 0, int64(0)
		for n < len(all) && used+all[n].lengthBytes <= int64(len(host)) {
			used += all[n].lengthBytes
			n++
		}
		if err := l.copyBack(all[:n], host); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

// copyBack takes the sums of what fits into host.
func (l *lane) copyBack(all []sumWanted, host []byte) error {
	at := int64(0)
	for from := 0; from < len(all); {
		// Chunks of a plane follow each other: one copy takes them all.
		to, length := from+1, all[from].lengthBytes
		for to < len(all) && all[to].at == all[from].at+driver.DevicePtr(length) {
			length += all[to].lengthBytes
			to++
		}
		dst := unsafe.Pointer(&host[at])
		err := l.do("cuMemcpyDtoHAsync", func() error { return l.d.c.CopyDtoHAsync(dst, all[from].at, length, l.stream) })
		l.counted(length, err)
		for i := from; i < to; i++ {
			all[i].err = err
		}
		at += length
		from = to
	}
	if err := l.settle("copies back to be verified"); err != nil {
		return err
	}
	at = 0
	for i := range all {
		all[i].got = sums.Chunk(host[at : at+all[i].lengthBytes])
		at += all[i].lengthBytes
	}
	return nil
}

// sumsOnDevice takes the chunk sums of a block's planes in staging by the
// kernel.
func (l *lane) sumsOnDevice(w *work) error {
	var all []sumWanted
	at := w.device
	for _, plane := range w.planes {
		for rest := plane; rest > 0; {
			n := min(rest, sums.ChunkBytes)
			all = append(all, sumWanted{at: at, lengthBytes: n, work: w})
			at += driver.DevicePtr(n)
			rest -= n
		}
	}
	if len(all) == 0 {
		return nil
	}
	done, err := l.sumsByKernel(all)
	if err != nil || !done {
		return err
	}
	w.sums = make([]uint64, len(all))
	for i := range all {
		w.sums[i] = all[i].got
	}
	w.onDevice = true
	return nil
}
