package gpu

import (
	"sync"

	"github.com/sealstone/sealstone/gpu/driver"
)

// deviceSums is the verify kernel, where it is proven.
type deviceSums struct {
	mu     sync.Mutex
	reason string // why it is not used; empty if it is
	broken string // what it did after it was proven
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

func (s *deviceSums) failure() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}

func (s *deviceSums) prove(d *Device, c *driver.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason = "not tried"
}

// sumsByKernel takes the sums on the device; done is false where the kernel
// cannot be used.
func (l *lane) sumsByKernel(all []sumWanted) (done bool, err error) { return false, nil }

func (s *deviceSums) close(d *Device) error { return nil }
