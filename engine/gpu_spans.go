package engine

import (
	"fmt"

	"github.com/sealstone/sealstone/gpu"
)

// checkDeviceSpans tests spans by themselves: a length of a block at most, and
// an address that does not wrap.
func checkDeviceSpans(hash []byte, spans []gpu.Span) error {
	for _, s := range spans {
		from := uint64(s.Ptr)
		if s.LengthBytes < 0 || s.LengthBytes > MaxBlockBytes || from == 0 && s.LengthBytes > 0 || from+uint64(s.LengthBytes) < from {
			return &BlockError{Status: StatusInvalid, Hash: hash, Offset: -1,
				Reason: fmt.Sprintf("a span of %d bytes at device address %#x: up to %d bytes at an address from cuMemAlloc are allowed", s.LengthBytes, from, int64(MaxBlockBytes))}
		}
	}
	return nil
}

// appendDestinations adds where block i is read to.
func appendDestinations(all []destination, i int, parts []DevicePart) []destination {
	for _, p := range parts {
		for _, s := range p.Spans {
			if s.LengthBytes > 0 {
				all = append(all, destination{uint64(s.Ptr), uint64(s.Ptr) + uint64(s.LengthBytes), i})
			}
		}
	}
	return all
}
