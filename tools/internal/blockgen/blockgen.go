// Package blockgen makes the content of blocks: bytes that follow from a
// block's identity alone, so that whoever reads a block back can tell whether
// each byte is right without asking the store.
//
// It shares nothing with the store on purpose: identities are SHA-256, bytes
// are an AES-CTR stream, and no code below the tools is imported. Bytes of
// different blocks are unrelated, so a block served in place of another
// differs from its first bytes on.
package blockgen

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/binary"
)

// HashBytes is the length of the hashes made here.
const HashBytes = sha256.Size

const (
	hashDomain  = "sealstone-tools block hash v1"
	bytesDomain = "sealstone-tools block bytes v1"
)

// Ref names a block: an id and the space in which the id is unique.
type Ref struct {
	Scope string
	ID    uint64
}

// Hash is the block hash of the block: SHA-256 over a domain, the scope (its
// length first) and the id.
func (r Ref) Hash() [HashBytes]byte {
	b := make([]byte, 0, 128)
	b = append(b, hashDomain...)
	b = binary.LittleEndian.AppendUint64(b, uint64(len(r.Scope)))
	b = append(b, r.Scope...)
	b = binary.LittleEndian.AppendUint64(b, r.ID)
	return sha256.Sum256(b)
}

// Generator makes the bytes of blocks. Generators of different seeds make
// different bytes for the same block.
type Generator struct{ seed uint64 }

// New returns the generator of a seed. It is stateless: all methods may be
// called from any goroutine.
func New(seed uint64) Generator { return Generator{seed} }

// Fill writes the block's first len(dst) bytes.
func (g Generator) Fill(dst []byte, r Ref) {
	clear(dst)
	g.stream(r).XORKeyStream(dst, dst)
}

// Check compares p with the block's first len(p) bytes. It returns the offset
// of the first byte that differs, or -1.
func (g Generator) Check(p []byte, r Ref) (badOffset int) {
	first, _ := g.Compare(p, r)
	return first
}

// Compare is Check, and counts the bytes that differ.
func (g Generator) Compare(p []byte, r Ref) (badOffset int, badBytes int64) {
	var zero, want [4096]byte
	badOffset = -1
	s := g.stream(r)
	for off := 0; off < len(p); off += len(want) {
		n := min(len(want), len(p)-off)
		s.XORKeyStream(want[:n], zero[:n])
		if bytes.Equal(want[:n], p[off:off+n]) {
			continue
		}
		for i, b := range p[off : off+n] {
			if b != want[i] {
				badBytes++
				if badOffset < 0 {
					badOffset = off + i
				}
			}
		}
	}
	return badOffset, badBytes
}

func (g Generator) stream(r Ref) cipher.Stream {
	h := r.Hash()
	b := make([]byte, 0, len(bytesDomain)+8+len(h))
	b = append(b, bytesDomain...)
	b = binary.LittleEndian.AppendUint64(b, g.seed)
	b = append(b, h[:]...)
	key := sha256.Sum256(b)
	// NewCipher refuses only keys of a wrong length; 32 bytes is AES-256.
	block, _ := aes.NewCipher(key[:])
	return cipher.NewCTR(block, make([]byte, aes.BlockSize))
}
