package meta

import (
	"encoding/binary"
	"fmt"

	"github.com/sealstone/sealstone/internal/sums"
)

// STORE, behind the envelope:
//
//	 48 +---------------------------------------------------------+
//	    | secret 32                                               |
//	 80 +---------------------------------------------------------+
//	    | set uuid 16                                             |
//	 96 +--------------------------+------------------------------+
//	    | member u32               | members u32                  |
//	104 +--------------------------+------------------------------+
//	    | segment bytes u64                                       |
//	112 +--------------------------+------------------------------+
//	    | alignment bytes u32      | pebble format u32            |
//	120 +--------------------------+------------------------------+
//	    | created, unix seconds i64                               |
//	128 +---------------------------------------------------------+
//	    | reserved, 0                                             |
//	504 +---------------------------------------------------------+
//	    | sum u64                                                 |
//	512 +---------------------------------------------------------+
//
// 512 bytes: one sector, whatever the disk.
const (
	storeMagic = "SLSTORE1"
	storeBytes = 512
	// maxStoreBytes is read, so that a later version may be longer.
	maxStoreBytes = 64 << 10

	minAlignmentBytes = 4096
	maxAlignmentBytes = 1 << 20
	maxSegmentBytes   = int64(1) << 44 // 2^32 pages of 4 KiB
)

// StoreInfo is what STORE says, without the secret.
type StoreInfo struct {
	Version        uint16
	Features       Features
	Generation     uint64
	UUID           [16]byte
	SetUUID        [16]byte // zero: no set
	Member         uint32   // of Members; 0 of 1 without a set
	Members        uint32
	SegmentBytes   int64
	AlignmentBytes uint32 // of segments and extents: max(4096, what the disk asks for)
	PebbleFormat   uint32 // format major version of the index, raised by command only
	CreatedUnix    int64
}

// storeState is a decoded STORE.
type storeState struct {
	info   StoreInfo
	secret [32]byte
}

func encodeStore(s storeState) []byte {
	i := s.info
	e := envelope{version: i.Version, features: i.Features, generation: i.Generation, uuid: i.UUID}
	p := e.append(make([]byte, 0, storeBytes), storeMagic)
	p = append(p, s.secret[:]...)
	p = append(p, i.SetUUID[:]...)
	p = binary.LittleEndian.AppendUint32(p, i.Member)
	p = binary.LittleEndian.AppendUint32(p, i.Members)
	p = binary.LittleEndian.AppendUint64(p, uint64(i.SegmentBytes))
	p = binary.LittleEndian.AppendUint32(p, i.AlignmentBytes)
	p = binary.LittleEndian.AppendUint32(p, i.PebbleFormat)
	p = binary.LittleEndian.AppendUint64(p, uint64(i.CreatedUnix))
	p = p[:storeBytes-sumBytes] // the rest of the fresh array is zero
	return appendSum(p, sums.DomainStore, sums.NewKey(s.secret))
}

// decodeStore checks and reads a copy of STORE. Its error is an
// *UnsupportedError, or says what is damaged.
func decodeStore(file string, p []byte, readOnly bool) (s storeState, err error) {
	if len(p) != storeBytes {
		return s, fmt.Errorf("%d bytes in place of %d", len(p), storeBytes)
	}
	copy(s.secret[:], p[48:])
	e, err := parseEnvelope(p, storeMagic, sums.DomainStore, sums.NewKey(s.secret))
	if err != nil {
		return s, err
	}
	s.info = StoreInfo{
		Version: e.version, Features: e.features, Generation: e.generation, UUID: e.uuid,
		Member:         binary.LittleEndian.Uint32(p[96:]),
		Members:        binary.LittleEndian.Uint32(p[100:]),
		SegmentBytes:   int64(binary.LittleEndian.Uint64(p[104:])),
		AlignmentBytes: binary.LittleEndian.Uint32(p[112:]),
		PebbleFormat:   binary.LittleEndian.Uint32(p[116:]),
		CreatedUnix:    int64(binary.LittleEndian.Uint64(p[120:])),
	}
	copy(s.info.SetUUID[:], p[80:])
	if err := e.supported(file, readOnly); err != nil {
		return s, err
	}
	if e.features == (Features{}) && (!allZero(p[10:12]) || !allZero(p[128:storeBytes-sumBytes])) {
		return s, fmt.Errorf("reserved bytes are not zero")
	}
	return s, s.info.check()
}

// check refuses values that no store can have.
func (i StoreInfo) check() error {
	a := int64(i.AlignmentBytes)
	switch {
	case i.UUID == [16]byte{}:
		return fmt.Errorf("store uuid is zero")
	case a < minAlignmentBytes || a > maxAlignmentBytes || a&(a-1) != 0:
		return fmt.Errorf("alignment of %d bytes: a power of two from %d to %d is allowed",
			a, minAlignmentBytes, maxAlignmentBytes)
	case i.SegmentBytes < 4*a || i.SegmentBytes > maxSegmentBytes || i.SegmentBytes%a != 0:
		return fmt.Errorf("segments of %d bytes: a multiple of the alignment (%d) from %d to %d is allowed",
			i.SegmentBytes, a, 4*a, maxSegmentBytes)
	case i.Members == 0 || i.Member >= i.Members:
		return fmt.Errorf("member %d of %d", i.Member, i.Members)
	case i.SetUUID == [16]byte{} && i.Members != 1:
		return fmt.Errorf("%d members without a set", i.Members)
	}
	return nil
}
