package meta

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/sums"
)

// NAMESPACES, behind the envelope:
//
//	48 +----------------------------------------------------------+
//	   | segment bound u64: ids below it may have been used       |
//	56 +----------------------------------------------------------+
//	   | sequence bound u64: put sequences below may be used      |
//	64 +----------------------------+-----------------------------+
//	   | next number u32            | count u32                   |
//	72 +----------------------------+-----------------------------+
//	   | file bytes u64, with the sum                             |
//	80 +----------------------------------------------------------+
//	   | records, ascending by number                             |
//	   +----------------------------------------------------------+
//	   | sum u64                                                  |
//	   +----------------------------------------------------------+
//
// A record:
//
//	 0 +------------------+------------------+--------------------+
//	   | number u32       | tenant bytes u32 | layout bytes u32   |
//	12 +------------------+------------------+--------------------+
//	   | epoch u64                                                |
//	20 +----------------------------------------------------------+
//	   | floor u64: put sequences below it are dead               |
//	28 +----------------------------------------------------------+
//	   | created, unix seconds i64                                |
//	36 +----------------------------------------------------------+
//	   | tenant, layout (its canonical encoding)                  |
//	   +----------------------------------------------------------+
const (
	namesMagic       = "SLNAMES1"
	namesHeaderBytes = 80
	recordBytes      = 36

	// MaxTenantBytes limits the name of a tenant.
	MaxTenantBytes = 256
	// MaxNamespaces limits the namespaces that a store ever makes.
	MaxNamespaces = 4096
	// MaxNamespacesBytes limits NAMESPACES, which is written whole.
	MaxNamespacesBytes = 16 << 20
)

// Namespace is the space in which block hashes are keys: a layout and a
// tenant. Blocks with a put sequence below Floor are dead.
type Namespace struct {
	Number      uint32 // from 1, never used again
	Tenant      string // may be empty; at most MaxTenantBytes of UTF-8 without control characters
	Layout      layout.Layout
	Fingerprint [16]byte // of Layout
	Epoch       uint64   // from 1, +1 with every RaiseFloor
	Floor       uint64
	CreatedUnix int64
}

func (n Namespace) clone() Namespace {
	n.Layout = n.Layout.Clone()
	return n
}

// namesState is a decoded NAMESPACES. It is replaced, never changed.
type namesState struct {
	envelope
	segmentBound  uint64
	sequenceBound uint64
	nextNumber    uint32
	list          []Namespace // ascending by number
}

func encodeNames(s *namesState, k sums.Key) []byte {
	p := s.envelope.append(nil, namesMagic)
	p = binary.LittleEndian.AppendUint64(p, s.segmentBound)
	p = binary.LittleEndian.AppendUint64(p, s.sequenceBound)
	p = binary.LittleEndian.AppendUint32(p, s.nextNumber)
	p = binary.LittleEndian.AppendUint32(p, uint32(len(s.list)))
	p = binary.LittleEndian.AppendUint64(p, 0)
	for i := range s.list {
		n := &s.list[i]
		l := n.Layout.Encode()
		p = binary.LittleEndian.AppendUint32(p, n.Number)
		p = binary.LittleEndian.AppendUint32(p, uint32(len(n.Tenant)))
		p = binary.LittleEndian.AppendUint32(p, uint32(len(l)))
		p = binary.LittleEndian.AppendUint64(p, n.Epoch)
		p = binary.LittleEndian.AppendUint64(p, n.Floor)
		p = binary.LittleEndian.AppendUint64(p, uint64(n.CreatedUnix))
		p = append(p, n.Tenant...)
		p = append(p, l...)
	}
	binary.LittleEndian.PutUint64(p[72:], uint64(len(p)+sumBytes))
	return appendSum(p, sums.DomainNamespaces, k)
}

// decodeNames checks and reads a copy of NAMESPACES of the store with this key
// and uuid. Its error is an *UnsupportedError, or says what is damaged.
func decodeNames(file string, p []byte, k sums.Key, uuid [16]byte, readOnly bool) (*namesState, error) {
	if len(p) < namesHeaderBytes+sumBytes {
		return nil, fmt.Errorf("%d bytes, less than a header and a sum", len(p))
	}
	e, err := parseEnvelope(p, namesMagic, sums.DomainNamespaces, k)
	if err != nil {
		return nil, err
	}
	s := &namesState{envelope: e}
	if err := e.supported(file, readOnly); err != nil {
		return s, err // with the envelope: its generation decides whether it matters
	}
	if e.uuid != uuid {
		return nil, fmt.Errorf("belongs to store %x, not to %x", e.uuid, uuid)
	}
	if e.features == (Features{}) && !allZero(p[10:12]) {
		return nil, fmt.Errorf("reserved bytes are not zero")
	}
	s.segmentBound = binary.LittleEndian.Uint64(p[48:])
	s.sequenceBound = binary.LittleEndian.Uint64(p[56:])
	s.nextNumber = binary.LittleEndian.Uint32(p[64:])
	count := binary.LittleEndian.Uint32(p[68:])
	if sizeBytes := binary.LittleEndian.Uint64(p[72:]); sizeBytes != uint64(len(p)) {
		return nil, fmt.Errorf("%d bytes in place of %d", len(p), sizeBytes)
	}
	if count > MaxNamespaces {
		return nil, fmt.Errorf("%d namespaces, more than %d", count, MaxNamespaces)
	}
	off := namesHeaderBytes
	for range count {
		n, used, err := decodeNamespace(p[off : len(p)-sumBytes])
		if errors.Is(err, layout.ErrUnsupported) { // the sum held: not damage
			return s, fmt.Errorf("%w: %s, namespace %d: %w", ErrUnsupported, file, n.Number, err)
		}
		if err != nil {
			return nil, fmt.Errorf("namespace record at offset %d: %w", off, err)
		}
		s.list = append(s.list, n)
		off += used
	}
	if off != len(p)-sumBytes {
		return nil, fmt.Errorf("%d bytes behind the last record, at offset %d", len(p)-sumBytes-off, off)
	}
	return s, s.check()
}

func decodeNamespace(p []byte) (n Namespace, used int, err error) {
	if len(p) < recordBytes {
		return n, 0, fmt.Errorf("ends too early")
	}
	tenantBytes := binary.LittleEndian.Uint32(p[4:])
	layoutBytes := binary.LittleEndian.Uint32(p[8:])
	if tenantBytes > MaxTenantBytes || layoutBytes > layout.MaxEncodedBytes ||
		recordBytes+int(tenantBytes)+int(layoutBytes) > len(p) {
		return n, 0, fmt.Errorf("tenant of %d and layout of %d bytes in the %d that are left",
			tenantBytes, layoutBytes, len(p))
	}
	used = recordBytes + int(tenantBytes) + int(layoutBytes)
	n.Number = binary.LittleEndian.Uint32(p)
	n.Epoch = binary.LittleEndian.Uint64(p[12:])
	n.Floor = binary.LittleEndian.Uint64(p[20:])
	n.CreatedUnix = int64(binary.LittleEndian.Uint64(p[28:]))
	n.Tenant = string(p[recordBytes : recordBytes+int(tenantBytes)])
	if n.Layout, err = layout.Decode(p[recordBytes+int(tenantBytes) : used]); err != nil {
		return n, used, err
	}
	n.Fingerprint = n.Layout.Fingerprint()
	return n, used, checkTenant(n.Tenant)
}

// check refuses states that this package never writes.
func (s *namesState) check() error {
	type key struct {
		tenant      string
		fingerprint [16]byte
	}
	seen := map[key]bool{}
	last := uint32(0)
	for i := range s.list {
		n := &s.list[i]
		k := key{n.Tenant, n.Fingerprint}
		switch {
		case n.Number <= last || n.Number >= s.nextNumber:
			return fmt.Errorf("namespace number %d behind %d, below %d", n.Number, last, s.nextNumber)
		case n.Epoch == 0:
			return fmt.Errorf("namespace %d: epoch 0", n.Number)
		case n.Floor > s.sequenceBound:
			return fmt.Errorf("namespace %d: floor %d beyond the sequence bound %d", n.Number, n.Floor, s.sequenceBound)
		case seen[k]:
			return fmt.Errorf("namespace %d: tenant %q has this layout twice", n.Number, n.Tenant)
		}
		last, seen[k] = n.Number, true
	}
	if s.segmentBound == 0 || s.segmentBound > maxBound || s.sequenceBound == 0 || s.sequenceBound > maxBound || s.nextNumber == 0 {
		return fmt.Errorf("bounds: segments %d, sequences %d, numbers %d", s.segmentBound, s.sequenceBound, s.nextNumber)
	}
	return nil
}

func checkTenant(tenant string) error {
	switch {
	case len(tenant) > MaxTenantBytes:
		return fmt.Errorf("tenant of %d bytes, more than %d", len(tenant), MaxTenantBytes)
	case !utf8.ValidString(tenant):
		return fmt.Errorf("tenant %q is not UTF-8", tenant)
	case strings.ContainsFunc(tenant, unicode.IsControl):
		return fmt.Errorf("tenant %q has control characters", tenant)
	}
	return nil
}
