package index

import (
	"encoding/binary"
	"errors"

	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

// Keys of the index, big endian so that they sort by number:
//
//	k <namespace u32> <hash>                          -> Entry
//	r <segment u64> <page u32> <namespace u32> <hash> -> nothing
//	c <tenant u32> <content id 16>                    -> Content
//	s <segment u64>                                   -> live bytes u64
//	m applied                                         -> log position u64
//	m complete                                        -> store uuid
//
// An r record stands under the address that holds a key's bytes and, for an
// alias, under the alias's own address too, so that an eviction finds both.
const (
	kindKey     = 'k'
	kindRef     = 'r'
	kindContent = 'c'
	kindSegment = 's'
	kindMeta    = 'm'
)

var (
	metaApplied  = []byte{kindMeta, 'a'}
	metaComplete = []byte{kindMeta, 'c'}
)

// Key names a block: a namespace number and a block hash. The hash is a
// string so that a Key can be a map key.
type Key struct {
	Namespace uint32
	Hash      string
}

func appendKey(dst []byte, k Key) []byte {
	dst = append(dst, kindKey)
	dst = binary.BigEndian.AppendUint32(dst, k.Namespace)
	return append(dst, k.Hash...)
}

func decodeKey(p []byte) (Key, error) {
	if len(p) < 6 || p[0] != kindKey {
		return Key{}, errBadRecord
	}
	return Key{Namespace: binary.BigEndian.Uint32(p[1:]), Hash: string(p[5:])}, nil
}

func appendRefPrefix(dst []byte, a disk.Address) []byte {
	dst = append(dst, kindRef)
	dst = binary.BigEndian.AppendUint64(dst, a.Segment)
	return binary.BigEndian.AppendUint32(dst, a.Page)
}

func appendRef(dst []byte, a disk.Address, k Key) []byte {
	dst = appendRefPrefix(dst, a)
	dst = binary.BigEndian.AppendUint32(dst, k.Namespace)
	return append(dst, k.Hash...)
}

func decodeRef(p []byte) (disk.Address, Key, error) {
	if len(p) < 18 || p[0] != kindRef {
		return disk.Address{}, Key{}, errBadRecord
	}
	a := disk.Address{Segment: binary.BigEndian.Uint64(p[1:]), Page: binary.BigEndian.Uint32(p[9:])}
	return a, Key{Namespace: binary.BigEndian.Uint32(p[13:]), Hash: string(p[17:])}, nil
}

func segmentPrefix(kind byte, segment uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kind}, segment)
}

func contentKey(tenant uint32, id sums.ContentID) []byte {
	p := make([]byte, 0, 21)
	p = append(p, kindContent)
	p = binary.BigEndian.AppendUint32(p, tenant)
	return append(p, id[:]...)
}

// errBadRecord: a record of the index does not decode. The index is damaged.
var errBadRecord = errors.New("index: record does not decode")
