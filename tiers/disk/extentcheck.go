package disk

import (
	"fmt"

	"github.com/sealstone/sealstone/internal/sums"
)

// check reports the first thing in e that the format does not allow. Both
// sides use it: what a decoder refuses, an encoder does not write.
func (e *Extent) check() error {
	if e.Kind != KindFull && e.Kind != KindAlias {
		return fmt.Errorf("kind %d", e.Kind)
	}
	if e.Address.Page == 0 {
		return fmt.Errorf("page 0 is the segment's header")
	}
	if n := len(e.Hash); n < MinHashBytes || n > MaxHashBytes {
		return fmt.Errorf("hash of %d bytes", n)
	}
	if n := len(e.Parent); n != 0 && (n < MinHashBytes || n > MaxHashBytes) {
		return fmt.Errorf("parent hash of %d bytes", n)
	}
	if n := len(e.PlainKey); n > MaxPlainKeyBytes {
		return fmt.Errorf("plain key of %d bytes", n)
	}
	if e.Kind == KindFull && !e.Target.IsZero() {
		return fmt.Errorf("a full extent has a target: %v", e.Target)
	}
	if err := e.checkPlanes(); err != nil {
		return err
	}
	if err := e.checkChunks(); err != nil {
		return err
	}
	if n := HeaderPages(e); int(e.HeaderPages) != n {
		return fmt.Errorf("%d header pages, the fields take %d", e.HeaderPages, n)
	}
	want := 0
	if e.Kind == KindFull {
		want = e.PayloadSpanPages()
	}
	if int(e.PayloadPages) != want {
		return fmt.Errorf("%d payload pages, the planes take %d", e.PayloadPages, want)
	}
	return nil
}

// checkPlanes checks that the planes lie one behind the other, each from a
// page's beginning, and that the block is within its limit.
func (e *Extent) checkPlanes() error {
	if n := len(e.Planes); n == 0 || n > MaxPlanes {
		return fmt.Errorf("%d planes", n)
	}
	var raw, offset int64
	for i := range e.Planes {
		p := &e.Planes[i]
		if n := len(p.Name); n == 0 || n > MaxPlaneName {
			return fmt.Errorf("plane %d: name of %d bytes", i, n)
		}
		if p.RawBytes < 0 || p.RawBytes > MaxBlockBytes || p.StoredBytes < 0 || p.StoredBytes > p.RawBytes {
			return fmt.Errorf("plane %d: %d raw bytes, %d stored", i, p.RawBytes, p.StoredBytes)
		}
		if e.Codec == CodecRaw && p.StoredBytes != p.RawBytes {
			return fmt.Errorf("plane %d: %d raw bytes, %d stored, no codec", i, p.RawBytes, p.StoredBytes)
		}
		if p.OffsetBytes != offset {
			return fmt.Errorf("plane %d: at payload offset %d, want %d", i, p.OffsetBytes, offset)
		}
		raw += p.RawBytes
		offset += pages(p.StoredBytes) * PageBytes
	}
	if raw == 0 || raw > MaxBlockBytes {
		return fmt.Errorf("block of %d bytes", raw)
	}
	return nil
}

// checkChunks checks the chunk table against the planes, which are sound.
func (e *Extent) checkChunks() error {
	if n := rawChunkCount(e); len(e.Chunks) != n {
		return fmt.Errorf("%d chunks, the planes have %d", len(e.Chunks), n)
	}
	next := 0
	for i := range e.Planes {
		p := &e.Planes[i]
		var stored int64
		for left := p.RawBytes; left > 0; left -= sums.ChunkBytes {
			c := e.Chunks[next]
			if e.Codec == CodecRaw && (c.StoredBytes != 0 || c.StoredSum != 0) {
				return fmt.Errorf("chunk %d: a stored length or sum without a codec", next)
			}
			if e.Codec != CodecRaw && (c.StoredBytes == 0 || int64(c.StoredBytes) > min(left, sums.ChunkBytes)) {
				return fmt.Errorf("chunk %d: %d stored bytes", next, c.StoredBytes)
			}
			stored += int64(c.StoredBytes)
			next++
		}
		if e.Codec != CodecRaw && stored != p.StoredBytes {
			return fmt.Errorf("plane %d: %d stored bytes, its chunks have %d", i, p.StoredBytes, stored)
		}
	}
	return nil
}
