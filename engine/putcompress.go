package engine

import (
	"sync"

	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

// encodeScratch lends the memory in which one chunk is compressed.
var encodeScratch = sync.Pool{New: func() any { return new([disk.EncodeRoomBytes]byte) }}

// roomCodec is the codec whose header a block needs room for: what is decided
// later may be shorter.
func (n *Namespace) roomCodec() uint8 {
	if n.compress.mode == CompressionOff || n.gpuDirect() {
		return disk.CodecRaw
	}
	return disk.CodecS2
}

// compressAll compresses the blocks of a group that are stored whole, where
// the namespace wants it, several at a time, and then closes the gaps. It
// works on the store's own copy, so nobody's memory is held meanwhile.
func (p *putBatch) compressAll(items []*putItem) {
	if p.n.roomCodec() == disk.CodecRaw {
		return
	}
	var todo []*putItem
	for _, it := range items {
		if it.target == nil && !it.img.decided {
			todo = append(todo, it)
		}
	}
	p.s.parallel(len(todo), func(i int) bool {
		p.n.compressOne(todo[i].img)
		return true
	})
	closeGaps(items)
}

// compressOne decides how a block is stored.
func (n *Namespace) compressOne(img *image) {
	img.decided = true
	codec, sample := n.compress.codec()
	scratch := encodeScratch.Get().(*[disk.EncodeRoomBytes]byte)
	defer encodeScratch.Put(scratch)
	changed := false
	switch {
	case codec != disk.CodecRaw:
		raw := img.ext.RawBytes()
		stored := img.compress(codec, scratch[:0])
		n.s.count.compressRaw.Add(raw)
		n.s.count.compressStored.Add(stored)
		changed = n.compress.note(raw, stored)
	case sample:
		changed = n.compress.note(img.sample(scratch[:0]))
	default:
		n.compress.passed()
	}
	if changed {
		st := n.compress.state()
		n.s.event(EventCompression, "namespace %d: compression is %s, the latest blocks would save %.0f %% of their bytes (at least %.0f %% are wanted)",
			n.info.Number, map[bool]string{true: "on", false: "off"}[st.Active], 100*st.SavingShare, 100*n.compress.minSaving)
	}
}

// compress compresses the payload in place, chunk by chunk: a chunk is stored
// in no more bytes than it had, so what is written never reaches what is still
// to be read. It returns the stored bytes, padding left out. An image of which
// no chunk gets shorter stays raw, and as it was.
func (m *image) compress(codec uint8, scratch []byte) (storedBytes int64) {
	payload := m.payload()
	shorter := false
	end := int64(0) // of what is written
	m.ext.EachChunk(0, len(m.ext.Chunks), func(c disk.StoredChunk) bool {
		chunk := payload[c.PayloadOff:][:c.RawLen]
		entry := &m.ext.Chunks[c.Index]
		entry.StoredBytes, entry.StoredSum = uint32(c.RawLen), entry.RawSum
		if s := disk.EncodeChunk(scratch, chunk, codec); s != nil {
			chunk, shorter = s, true
			entry.StoredBytes, entry.StoredSum = uint32(len(s)), sums.Chunk(s)
		}
		end += int64(copy(payload[end:], chunk))
		storedBytes += int64(len(chunk))
		if c.EndsPlane {
			next := (end + disk.PageBytes - 1) &^ (disk.PageBytes - 1)
			clear(payload[end:next])
			end = next
		}
		return true
	})
	if !shorter {
		for i := range m.ext.Chunks {
			m.ext.Chunks[i].StoredBytes, m.ext.Chunks[i].StoredSum = 0, 0
		}
		return storedBytes
	}
	before := m.ext.HeaderPages
	m.ext.LayoutStored(codec)
	m.begin -= int(m.ext.HeaderPages-before) * disk.PageBytes // the payload stays where it is
	return storedBytes
}

// sample compresses some chunks to see what that would save.
func (m *image) sample(scratch []byte) (rawBytes, storedBytes int64) {
	payload, plane, taken := m.payload(), -1, 0
	m.ext.EachChunk(0, len(m.ext.Chunks), func(c disk.StoredChunk) bool {
		if c.Plane == plane {
			return true
		}
		plane = c.Plane
		n := c.RawLen
		if s := disk.EncodeChunk(scratch, payload[c.PayloadOff:][:n], autoCodec); s != nil {
			n = len(s)
		}
		rawBytes, storedBytes = rawBytes+int64(c.RawLen), storedBytes+int64(n)
		taken++
		return taken < autoSampleChunks
	})
	return rawBytes, storedBytes
}

// closeGaps moves the images of a group together, so that they are written at
// once; those behind a gap that came about by compression are short. An alias
// keeps its payload in memory: should the segment be full, it may become a
// whole block again.
func closeGaps(items []*putItem) {
	buf := items[0].img.buf.Bytes()
	at := items[0].img.begin
	for _, it := range items {
		m := it.img
		n := (int(m.ext.HeaderPages) + m.ext.PayloadSpanPages()) * disk.PageBytes
		if m.begin > at {
			copy(buf[at:], buf[m.begin:m.begin+n])
			m.begin = at
		}
		at = m.begin + n
	}
}
