package index

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/cespare/xxhash/v2"

	"github.com/sealstone/sealstone/tiers/disk"
)

// Keys of the index, big endian so that they sort by number:
//
//	k <namespace u32> <spread hash>                        -> Entry
//	r <segment u64> <page u32> <namespace uvarint> <tag 6> -> nothing, or a count
//	c <tenant u32> <content tag 8>                         -> address
//	s <segment u64>                                        -> live bytes u64
//	u <namespace u32>                                      -> blocks u64, bytes u64
//	m applied                                              -> log position u64
//	m complete                                             -> store uuid, version u8
//
// An r record stands under the address that holds a key's bytes and, for an
// alias, under the alias's own address too, so that an eviction finds both.
// Its tag is the beginning of the spread hash.
const (
	kindKey     = 'k'
	kindRef     = 'r'
	kindContent = 'c'
	kindSegment = 's'
	kindUse     = 'u'
	kindMeta    = 'm'
)

var (
	metaApplied  = []byte{kindMeta, 'a'}
	metaComplete = []byte{kindMeta, 'c'}
)

const (
	// spreadBytes is how much of a hash is mixed with the rest of it.
	spreadBytes = 8
	// tagBytes of a spread hash stand in a reference. With 10^9 keys one in
	// 300,000 shares its tag with another; that costs a look at one key more.
	tagBytes = 6
	// keyPrefixBytes stand in front of the hash in a k record's key.
	keyPrefixBytes = 5
	// refPrefixBytes of an r record's key are its kind and the address.
	refPrefixBytes = 13
)

// Key names a block: a namespace number and a block hash. The hash is a
// string so that a Key can be a map key.
type Key struct {
	Namespace uint32
	Hash      string
}

// appendKey encodes a k record's key. The first 8 bytes of the hash are mixed
// with a sum over the others, which can be taken back: so the first bytes of
// any two keys differ, also where hashes are numbered or begin alike, and a
// reference needs no more of a key than those.
func appendKey(dst []byte, k Key) []byte {
	dst = append(dst, kindKey)
	dst = binary.BigEndian.AppendUint32(dst, k.Namespace)
	dst = append(dst, k.Hash...)
	spread(dst[len(dst)-len(k.Hash):])
	return dst
}

// Compare gives the order in which the index lists keys. It is not that of
// their hashes.
func (k Key) Compare(other Key) int {
	var a, b [keyPrefixBytes + 64]byte
	return bytes.Compare(appendKey(a[:0], k), appendKey(b[:0], other))
}

// spread mixes a hash in place; a second time it takes that back. What is
// shorter than 8 bytes, as no block hash is, stays as it is.
func spread(hash []byte) {
	if len(hash) < spreadBytes {
		return
	}
	first := binary.BigEndian.Uint64(hash)
	binary.BigEndian.PutUint64(hash, first^xxhash.Sum64(hash[spreadBytes:]))
}

func decodeKey(p []byte) (Key, error) {
	if len(p) <= keyPrefixBytes || p[0] != kindKey {
		return Key{}, errBadRecord
	}
	var buf [64]byte
	hash := append(buf[:0], p[keyPrefixBytes:]...)
	spread(hash)
	return Key{Namespace: binary.BigEndian.Uint32(p[1:]), Hash: string(hash)}, nil
}

// keyTag is what of a key stands in its references.
type keyTag struct {
	namespace uint32
	tag       string
}

// tagOf takes the tag from a k record's key.
func tagOf(key []byte) keyTag {
	hash := key[keyPrefixBytes:]
	return keyTag{binary.BigEndian.Uint32(key[1:]), string(hash[:min(tagBytes, len(hash))])}
}

// appendPrefix encodes what the keys of all k records with this tag begin with.
func (t keyTag) appendPrefix(dst []byte) []byte {
	dst = append(dst, kindKey)
	dst = binary.BigEndian.AppendUint32(dst, t.namespace)
	return append(dst, t.tag...)
}

func appendRefPrefix(dst []byte, a disk.Address) []byte {
	dst = append(dst, kindRef)
	dst = binary.BigEndian.AppendUint64(dst, a.Segment)
	return binary.BigEndian.AppendUint32(dst, a.Page)
}

func appendRef(dst []byte, a disk.Address, t keyTag) []byte {
	dst = appendRefPrefix(dst, a)
	dst = binary.AppendUvarint(dst, uint64(t.namespace))
	return append(dst, t.tag...)
}

func decodeRef(p []byte) (disk.Address, keyTag, error) {
	if len(p) < refPrefixBytes+2 || p[0] != kindRef {
		return disk.Address{}, keyTag{}, errBadRecord
	}
	a := disk.Address{Segment: binary.BigEndian.Uint64(p[1:]), Page: binary.BigEndian.Uint32(p[9:])}
	d := decoder{p: p[refPrefixBytes:]}
	t := keyTag{namespace: uint32(d.max(1<<32 - 1))}
	t.tag = string(d.p)
	if d.bad || t.tag == "" || len(t.tag) > tagBytes {
		return disk.Address{}, keyTag{}, errBadRecord
	}
	return a, t, nil
}

// A reference's value is how many keys of this tag refer to the address;
// nothing means one.
func appendRefCount(dst []byte, n uint64) []byte {
	if n == 1 {
		return dst
	}
	return binary.AppendUvarint(dst, n)
}

func decodeRefCount(p []byte) (uint64, error) {
	if len(p) == 0 {
		return 1, nil
	}
	d := decoder{p: p}
	n := d.uvarint()
	if d.bad || len(d.p) != 0 || n < 2 {
		return 0, errBadRecord
	}
	return n, nil
}

func segmentPrefix(kind byte, segment uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, segment)
}

// contentKeyBytes is the length of a c record's key.
const contentKeyBytes = 1 + 4 + len(ContentTag{})

func contentKey(tenant uint32, t ContentTag) []byte {
	p := make([]byte, 0, contentKeyBytes)
	p = append(p, kindContent)
	p = binary.BigEndian.AppendUint32(p, tenant)
	return append(p, t[:]...)
}

// errBadRecord: a record of the index does not decode. The index is damaged.
var errBadRecord = errors.New("index: record does not decode")
