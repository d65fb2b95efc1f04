package disk

import (
	"github.com/klauspost/compress/s2"
)

const (
	// minCompressedChunkBytes: shorter chunks are always stored raw. They are
	// the end of a plane, which is filled up to a page anyway.
	minCompressedChunkBytes = PageBytes
	// minSavingShare: a chunk that would save less than 1/16 of its length is
	// stored raw. Decoding it would cost every reader and gain no page.
	minSavingShare = 16
	// EncodeRoomBytes is the capacity that EncodeChunk needs in its scratch:
	// what the longest chunk may take with any codec while it is encoded.
	EncodeRoomBytes = 72 << 10
)

// EncodeChunk compresses raw, one chunk of 1 to 64 KiB, with a codec other
// than CodecRaw, into scratch, whose capacity is at least EncodeRoomBytes, and
// returns the stored form. It returns nil where the chunk is to be stored as
// it is: it is short, or would save less than 1/16. The result is valid until
// scratch is used again. It keeps neither slice, is safe for concurrent use,
// and waits only while as many other calls as there are processors encode.
func EncodeChunk(scratch, raw []byte, codec uint8) []byte {
	if len(raw) < minCompressedChunkBytes {
		return nil
	}
	var stored []byte
	switch codec {
	case CodecZstd:
		stored = zstdEncode(scratch[:0], raw)
	case CodecS2:
		stored = s2.Encode(scratch[:0:cap(scratch)], raw)
	}
	if len(stored) == 0 || len(stored) > len(raw)-len(raw)/minSavingShare {
		return nil
	}
	return stored
}

// knownCodec reports whether this release reads a codec.
func knownCodec(codec uint8) bool { return codec <= CodecS2 }
