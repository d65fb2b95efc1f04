package engine

import (
	"slices"

	"github.com/sealstone/sealstone/tiers/disk"
)

// verifiersMax bounds the segments that a recovery keeps at hand: the one that
// puts went to and the one for moved blocks, and a few that aliases refer to.
const verifiersMax = 8

// verifiers keeps the verifiers that were used last, the latest at the end. It
// belongs to one goroutine; after close it can be used again.
type verifiers struct{ open []heldVerifier }

type heldVerifier struct {
	segment uint64
	*disk.Verifier
}

// of returns the verifier of a segment; it is valid until the next call.
func (l *verifiers) of(vol *disk.Volume, segment uint64) (*disk.Verifier, error) {
	for i, h := range l.open {
		if h.segment == segment {
			l.open = append(slices.Delete(l.open, i, i+1), h)
			return h.Verifier, nil
		}
	}
	v, err := vol.NewVerifier(segment)
	if err != nil && len(l.open) > 0 { // too many files, perhaps: these can go
		l.close()
		v, err = vol.NewVerifier(segment)
	}
	if err != nil {
		return nil, err
	}
	if len(l.open) == verifiersMax {
		l.open[0].Close()
		l.open = slices.Delete(l.open, 0, 1)
	}
	l.open = append(l.open, heldVerifier{segment, v})
	return v, nil
}

func (l *verifiers) close() {
	for _, h := range l.open {
		h.Close()
	}
	l.open = nil
}
