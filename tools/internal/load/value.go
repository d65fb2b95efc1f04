package load

import (
	"encoding/binary"
	"fmt"

	"github.com/sealstone/sealstone/tools/internal/blockgen"
)

const (
	// headBytes stand at the beginning of a value: key, version, length.
	headBytes     = 24
	valueBytesMax = 64 << 20
)

// values makes and judges the values of a run.
type values struct {
	prefix string
	sizes  []int
}

var generator = blockgen.New(8)

// ref names the bytes of a version of a key.
func (v values) ref(key int, version uint64) blockgen.Ref {
	return blockgen.Ref{Scope: v.prefix, ID: uint64(key)<<32 | version&0xffffffff}
}

// sizeOf is the length of a version of a key's value.
func (v values) sizeOf(key int, version uint64) int {
	return v.sizes[(uint64(key)*7+version)%uint64(len(v.sizes))]
}

// fill makes a value in p, which grows as needed.
func (v values) fill(p []byte, key int, version uint64) []byte {
	n := v.sizeOf(key, version)
	if cap(p) < n {
		p = make([]byte, n)
	}
	p = p[:n]
	generator.Fill(p, v.ref(key, version))
	binary.LittleEndian.PutUint64(p, uint64(key))
	binary.LittleEndian.PutUint64(p[8:], version)
	binary.LittleEndian.PutUint64(p[16:], uint64(len(p)))
	return p
}

// verdict is what became of a value.
type verdict uint8

const (
	right   verdict = iota
	short           // not of its length
	foreign         // of another key, or a version that nobody wrote
	stale           // older than what was acknowledged before it was asked for
	wrong           // bytes differ

	verdicts
)

var verdictNames = [verdicts]string{"right", "of a wrong length", "of another key or of no version that was written", "older than what was acknowledged", "with wrong bytes"}

// judge looks at every byte of an answer for a key, of which versions from
// least to most may be read.
func (v values) judge(p []byte, key int, least, most uint64) (verdict, error) {
	if len(p) < headBytes {
		return short, fmt.Errorf("key %d: %d bytes, not even a value's head", key, len(p))
	}
	k, version, length := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:]), binary.LittleEndian.Uint64(p[16:])
	switch {
	case k != uint64(key) || version == 0 || version > most:
		return foreign, fmt.Errorf("key %d: the bytes are of key %d, version %d; %d is the latest", key, k, version, most)
	case len(p) != v.sizeOf(key, version) || length != uint64(len(p)):
		return short, fmt.Errorf("key %d: %d bytes of version %d, which has %d", key, len(p), version, v.sizeOf(key, version))
	}
	if at, n := v.compare(p, key, version); n > 0 {
		return wrong, fmt.Errorf("key %d, version %d: %d of %d bytes differ, the first at %d", key, version, n, len(p), at)
	}
	if version < least {
		return stale, fmt.Errorf("key %d: version %d, though %d was acknowledged before", key, version, least)
	}
	return right, nil
}

// compare looks at what follows the head, which was looked at already. The
// generator's stream begins with the head's place.
func (v values) compare(p []byte, key int, version uint64) (at int, n int64) {
	var head [headBytes]byte
	copy(head[:], p)
	// The head's bytes of the stream are put back for the comparison.
	generator.Fill(p[:headBytes], v.ref(key, version))
	at, n = generator.Compare(p, v.ref(key, version))
	copy(p, head[:])
	return at, n
}
