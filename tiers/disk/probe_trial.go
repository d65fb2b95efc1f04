package disk

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/vfs"
)

const (
	// partBytes is the part of the scratch file that one trial works on.
	partBytes = 64 << 10
	// The parts of the scratch file: one written through the page cache, one
	// past it, and two for I/O of all alignments.
	bufferedPart = 0 * partBytes
	directPart   = 1 * partBytes
	alignPart    = 2 * partBytes
	imageBytes   = 4 * partBytes
	// guardBytes lie on both sides of a destination and must not change.
	guardBytes = 4 << 10
	guardByte  = 0xA5
	// maxAlignBytes is the largest alignment that is tried.
	maxAlignBytes = 64 << 10
	// A trial's memory has one place to write from and one to read to, each
	// with room for a guard, an alignment and two parts.
	trialPlaceBytes = 512 << 10
	trialBytes      = 2 * trialPlaceBytes
)

// errContent: bytes came back other than they were written.
var errContent = errors.New("content")

// trial moves random bytes and knows what the file must hold.
type trial struct {
	buf  *aligned.Buffer
	mem  []byte // trialBytes, at a multiple of 2 x maxAlignBytes
	want []byte // what the scratch file holds, as far as it was written
	rand *rand.ChaCha8
}

func newTrial() (*trial, error) {
	// A buffer of this size begins on a huge page, so on every alignment.
	buf, err := aligned.Alloc(aligned.HugePageBytes)
	if err != nil {
		return nil, err
	}
	var seed [32]byte
	for i := range seed {
		seed[i] = byte(rand.Uint32())
	}
	return &trial{buf: buf, mem: buf.Bytes()[:trialBytes], want: make([]byte, imageBytes), rand: rand.NewChaCha8(seed)}, nil
}

func (t *trial) free() {
	if t != nil {
		t.buf.Free()
	}
}

// source and target are length bytes of memory at a multiple of alignBytes
// that is none of twice that.
func (t *trial) source(length, alignBytes int) []byte { return t.place(0, length, alignBytes) }

func (t *trial) target(length, alignBytes int) []byte {
	return t.place(trialPlaceBytes, length, alignBytes)
}

func (t *trial) place(base, length, alignBytes int) []byte {
	at := base + 2*maxAlignBytes + alignBytes%(2*maxAlignBytes)
	return t.mem[at : at+length : at+length]
}

// write writes fresh random bytes of length at off, from memory of the given
// alignment.
func (t *trial) write(f vfs.File, off int64, length, alignBytes int) error {
	src := t.source(length, alignBytes)
	_, _ = t.rand.Read(src) // never fails
	if _, err := f.WriteAt(src, off); err != nil {
		return err
	}
	copy(t.want[off:], src)
	return nil
}

// read reads length bytes at off into poisoned memory of the given alignment
// between guards, and compares them with what was written.
func (t *trial) read(f vfs.File, off int64, length, alignBytes int) error {
	return t.check(off, length, alignBytes, func(dst []byte) error {
		return readFull(f, [][]byte{dst}, off, length, true)
	})
}

// check has a function fill the destination, and compares.
func (t *trial) check(off int64, length, alignBytes int, fill func(dst []byte) error) error {
	want := t.want[off : off+int64(length)]
	at := trialPlaceBytes + 2*maxAlignBytes + alignBytes%(2*maxAlignBytes)
	before, after := t.mem[at-guardBytes:at], t.mem[at+length:at+length+guardBytes]
	fillBytes(before, guardByte)
	fillBytes(after, guardByte)
	dst := t.target(length, alignBytes)
	for i := range dst {
		dst[i] = ^want[i]
	}
	if err := fill(dst); err != nil {
		return err
	}
	if canaryLaw6 {
		return nil
	}
	if !bytes.Equal(dst, want) {
		first := 0
		for dst[first] == want[first] {
			first++
		}
		return fmt.Errorf("%w: %d bytes read at %d are other bytes than were written, from byte %d on", errContent, length, off, first)
	}
	if !allBytes(before, guardByte) || !allBytes(after, guardByte) {
		return fmt.Errorf("%w: a read of %d bytes at %d changed memory beside its destination", errContent, length, off)
	}
	return nil
}

func fillBytes(p []byte, b byte) {
	for i := range p {
		p[i] = b
	}
}

func allBytes(p []byte, b byte) bool {
	for _, x := range p {
		if x != b {
			return false
		}
	}
	return true
}
