package layout

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

// Decode reads what Encode wrote. It refuses, with ErrEncoding, everything
// that Encode would not have written byte for byte, and layouts that do not
// validate; unknown tags and versions are ErrUnsupported: a field that this
// program does not know may change what the bytes of a block mean.
func Decode(p []byte) (Layout, error) {
	if len(p) > MaxEncodedBytes {
		return Layout{}, fmt.Errorf("%w: %d bytes, more than %d", ErrEncoding, len(p), MaxEncodedBytes)
	}
	if len(p) < prefixBytes || string(p[:len(magic)-1]) != magic[:len(magic)-1] {
		return Layout{}, fmt.Errorf("%w: no magic %q at its begin", ErrEncoding, magic)
	}
	if p[len(magic)-1] != magic[len(magic)-1] {
		return Layout{}, fmt.Errorf("%w: version %q, known is %q", ErrUnsupported, p[len(magic)-1], magic[len(magic)-1])
	}
	l, err := decodeFields(p)
	if err != nil {
		return Layout{}, err
	}
	if err := l.Validate(); err != nil {
		return Layout{}, fmt.Errorf("%w: %w", ErrEncoding, err)
	}
	// One layout, one encoding: whatever the parser was lenient about
	// (order within a value, an optional field that says none) ends here.
	if !bytes.Equal(l.Encode(), p) {
		return Layout{}, fmt.Errorf("%w: not in canonical form", ErrEncoding)
	}
	return l, nil
}

func decodeFields(p []byte) (l Layout, err error) {
	count := binary.LittleEndian.Uint16(p[len(magic):])
	off, next := prefixBytes, 0
	for range count {
		if len(p)-off < 6 {
			return l, fmt.Errorf("%w: ends inside a field at offset %d", ErrEncoding, off)
		}
		tag := binary.LittleEndian.Uint16(p[off:])
		sizeBytes := binary.LittleEndian.Uint32(p[off+2:])
		value := p[off+6:]
		if uint64(sizeBytes) > uint64(len(value)) {
			return l, fmt.Errorf("%w: field %d at offset %d is longer than the rest", ErrEncoding, tag, off)
		}
		if tag > fields[len(fields)-1].tag {
			return l, fmt.Errorf("%w: field %d at offset %d is unknown", ErrUnsupported, tag, off)
		}
		for next < len(fields) && fields[next].tag < tag {
			next++
		}
		if next == len(fields) || fields[next].tag != tag {
			return l, fmt.Errorf("%w: field %d at offset %d is out of order", ErrEncoding, tag, off)
		}
		if err := fields[next].get(&l, value[:sizeBytes]); err != nil {
			return l, fmt.Errorf("%w: %s at offset %d: %w", ErrEncoding, fields[next].name, off, err)
		}
		next++
		off += 6 + int(sizeBytes)
	}
	if off != len(p) {
		return l, fmt.Errorf("%w: %d bytes behind the last field", ErrEncoding, len(p)-off)
	}
	return l, nil
}

// cursor reads the parts of a value. Past the end it gives zeros and
// remembers it; end says whether the value was exactly used up.
type cursor struct {
	p     []byte
	short bool
}

func (c *cursor) take(n int) []byte {
	if c.short || n > len(c.p) {
		c.short = true
		return nil
	}
	b := c.p[:n]
	c.p = c.p[n:]
	return b
}

func (c *cursor) u32() uint32 {
	if b := c.take(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if b := c.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (c *cursor) bytes16() string {
	b := c.take(2)
	if b == nil {
		return ""
	}
	return string(c.take(int(binary.LittleEndian.Uint16(b))))
}

func (c *cursor) end() error {
	if c.short {
		return fmt.Errorf("ends too early")
	}
	if len(c.p) != 0 {
		return fmt.Errorf("%d bytes too many", len(c.p))
	}
	return nil
}
