package gpu

import (
	"context"
	"fmt"
	"sync"

	"github.com/sealstone/sealstone/gpu/driver"
	"github.com/sealstone/sealstone/gpu/kernel"
)

// sumKernel is the verify kernel; a *kernel.Kernel is one.
type sumKernel interface {
	Verify(s driver.Stream, j *kernel.Job) error
	Close() error
}

var _ sumKernel = (*kernel.Kernel)(nil)

// deviceSums is the verify kernel of a device, where it is proven.
type deviceSums struct {
	mu     sync.Mutex
	kernel sumKernel
	reason string // why it is not used; empty if it is
	broken bool   // it was proven, and turned out bad
}

// prove loads the kernel and has it prove itself. An error says only that
// sums are taken in another way.
func (s *deviceSums) prove(d *Device, c *driver.Context) {
	k, err := kernel.Load(context.Background(), c, d.info.UUID)
	if err != nil {
		_ = d.judge(err)
		s.reason = err.Error()
		return
	}
	s.kernel = k
}

func (s *deviceSums) proven() (bool, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason == "", s.reason
}

func (s *deviceSums) on() bool {
	ok, _ := s.proven()
	return ok
}

// failure is why a proven kernel is off now; empty if it is not.
func (s *deviceSums) failure() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken {
		return s.reason
	}
	return ""
}

// turnOff ends the use of the kernel.
func (s *deviceSums) turnOff(d *Device, why error) {
	d.count.kernelFaults.Add(1)
	s.mu.Lock()
	first := !s.broken
	if first {
		s.broken, s.reason = true, why.Error()
	}
	s.mu.Unlock()
	if first {
		d.event(EventKernelOff, "", why.Error())
	}
}

// close unloads the kernel; no lane works any more.
func (s *deviceSums) close(d *Device) error {
	if s.kernel == nil {
		return nil
	}
	return d.guard("cuModuleUnload", s.kernel.Close)
}

// sumsByKernel takes the sums on the device. done is false where the kernel
// cannot be used, or said something that cannot be: it is not used again then,
// and the sums must be taken in another way.
func (l *lane) sumsByKernel(all []sumWanted) (done bool, err error) {
	j, err := l.kernelJob()
	if err != nil {
		if isLost(err) {
			return false, err
		}
		return false, nil
	}
	for rest := all; len(rest) > 0; {
		n := min(len(rest), j.Limit()-1) // and the decoy
		fault, err := l.runKernel(j, rest[:n])
		if err != nil {
			return false, err
		}
		if fault != nil {
			l.d.sums.turnOff(l.d, fault)
			return false, nil
		}
		rest = rest[n:]
	}
	return true, nil
}

// kernelJob is a job in the scratch memory of the lane.
func (l *lane) kernelJob() (*kernel.Job, error) {
	host, err := l.scratch.hostMemory(l)
	if err != nil {
		return nil, err
	}
	device, err := l.scratch.deviceMemory(l)
	if err != nil {
		return nil, err
	}
	return kernel.NewJob(device, l.scratch.deviceBytes, host)
}

// runKernel takes the sums of one launch. A fault is the kernel's: nothing is
// known of the sums. An error is the lane's.
//
// A kernel that copies the wanted sum and says match would pass. So each launch
// has a decoy: the first piece once more, wanting another sum. It must have the
// same sum, and cannot match if the first one does.
func (l *lane) runKernel(j *kernel.Job, some []sumWanted) (fault, err error) {
	j.Reset()
	for i := range some {
		if err := j.Add(some[i].piece(some[i].want)); err != nil {
			return err, nil
		}
	}
	if err := j.Add(some[0].piece(^some[0].want)); err != nil {
		return err, nil
	}
	l.d.count.kernelRuns.Add(1)
	fault = l.do("the verify kernel", func() error { return l.d.sums.kernel.Verify(l.stream, j) })
	if isLost(fault) {
		return nil, fault
	}
	// Also after a fault part of it may be under way, in memory that is to be
	// used again.
	if err := l.settle("the verify kernel"); err != nil {
		return nil, err
	}
	if fault != nil {
		return fault, nil
	}
	for i := range some {
		s := &some[i]
		if s.got, err = j.Sum(i); err != nil {
			return fmt.Errorf("gpu: %w", err), nil
		}
	}
	decoy, err := j.Sum(len(some))
	if err != nil {
		return fmt.Errorf("gpu: %w", err), nil
	}
	if decoy != some[0].got {
		return fmt.Errorf("gpu: the kernel computed %#016x and %#016x of the same bytes", some[0].got, decoy), nil
	}
	return nil, nil
}

func (s *sumWanted) piece(want uint64) kernel.Piece {
	return kernel.Piece{Address: uint64(s.at), LengthBytes: int(s.lengthBytes), Want: want}
}
