//go:build !linux

package canary

import (
	"context"
	"errors"

	"github.com/sealstone/sealstone/gpu/driver"
)

// scratchFile is nothing here: direct reads exist on Linux only, and no driver
// opens before a file would be made.
type scratchFile struct {
	handle          driver.Handle
	registered      bool
	content, before []byte
}

func (t *trial) makeFile(context.Context) (string, *finding) {
	return "", failed("make the file", errors.ErrUnsupported)
}

func (s *scratchFile) directFd() int  { return -1 }
func (s *scratchFile) fill() *finding { return failed("write the file", errors.ErrUnsupported) }
func (s *scratchFile) remove() error  { return nil }

func mapMemory(int64) ([]byte, error) { return nil, errors.ErrUnsupported }
func unmapMemory([]byte) error        { return nil }
