//go:build unix && !linux

package aligned

import (
	"errors"

	"golang.org/x/sys/unix"
)

// adviseHuge does nothing where there is no such advice.
func adviseHuge([]byte) {}

func adviseSmall([]byte) {}

func thpRefusal() string { return "huge pages are asked for on Linux only" }

func mapHugeTLB(int) ([]byte, error) { return nil, errors.ErrUnsupported }

// populate leaves it to the first touch.
func populate([]byte) (bool, error) { return false, nil }

// returnPages says that the bytes are not needed any more.
func returnPages(mem []byte) error { return unix.Madvise(mem, unix.MADV_DONTNEED) }
