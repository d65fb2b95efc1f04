package sums

import (
	"encoding/binary"
	"fmt"
	"io"

	"github.com/cespare/xxhash/v2"
)

// Domain separates the kinds of artifact: the same bytes have another sum in
// another domain. Its value is eight ASCII bytes read as a little-endian
// number, fixed by the format.
type Domain uint64

// The domains, in no particular order. -- Add new ones at the end. --
const (
	DomainSegmentHeader Domain = 0x2064616568676573 // "seghead "
	DomainExtentHeader  Domain = 0x2064616568747865 // "exthead "
	DomainFooter        Domain = 0x20207265746f6f66 // "footer  "
	DomainTrailer       Domain = 0x2072656c69617274 // "trailer "
	DomainTombstoneFile Domain = 0x656c6966626d6f74 // "tombfile"
	DomainTombstone     Domain = 0x746f6c73626d6f74 // "tombslot"
	DomainStore         Domain = 0x6c696665726f7473 // "storefil"
	DomainNamespaces    Domain = 0x73637073656d616e // "namespcs"
	DomainScrub         Domain = 0x736f706275726373 // "scrubpos"
)

// Key computes keyed sums for one store. The zero Key is the key of an
// all-zero secret; it works and protects nothing. A Key is comparable, and
// formatting one never prints the secret.
type Key struct{ secret [32]byte }

// NewKey returns the key of a store with this secret.
func NewKey(secret [32]byte) Key { return Key{secret: secret} }

// Sum returns the keyed sum of parts in a domain: XXH64 over the secret, then
// each part behind its length in bytes (u64), with the seed XXH64(seed =
// domain, secret). Lengths are part of the sum: ("ab", "c") and ("a", "bc")
// differ. It does not allocate and does not keep parts.
func (k Key) Sum(domain Domain, parts ...[]byte) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(uint64(domain))
	d.Write(k.secret[:])
	d.ResetWithSeed(d.Sum64())
	d.Write(k.secret[:])
	var length [8]byte
	for _, p := range parts {
		binary.LittleEndian.PutUint64(length[:], uint64(len(p)))
		d.Write(length[:])
		d.Write(p)
	}
	return d.Sum64()
}

// Format implements fmt.Formatter. Whatever the verb, it prints no secret.
func (k Key) Format(f fmt.State, _ rune) { io.WriteString(f, "sums.Key(secret)") }

var _ fmt.Formatter = Key{}
