package disk

import (
	"errors"
	"fmt"

	"github.com/klauspost/compress/s2"

	"github.com/sealstone/sealstone/internal/sums"
)

// StoredRaw reports whether a chunk of rawLen bytes is stored as it is under
// a codec: its stored bytes are then verified by RawSum alone.
func (c *Chunk) StoredRaw(codec uint8, rawLen int) bool {
	return codec == CodecRaw || int(c.StoredBytes) == rawLen
}

// DecodeChunk gives the raw bytes of chunk c in dst, which has exactly its raw
// length. stored are the chunk's stored bytes, as StoredSpan gives them, and
// must not overlap dst. Three steps, none left out: the stored bytes are
// verified, then decoded into dst and nowhere else, then the raw bytes are
// verified. Nothing is decoded that was not verified; a chunk that decodes to
// more than it should takes no memory for it.
//
// A nil error is the only good answer; on any other dst is as it was, or zero.
// Errors wrap ErrCorrupt (Offset counts in the chunk; ReasonSum names the side
// that failed) or ErrUnsupported. It allocates nothing but errors, is safe for
// concurrent use, and waits only while as many other calls as there are
// processors decode.
func DecodeChunk(dst, stored []byte, codec uint8, c Chunk, rawLen int) error {
	if rawLen <= 0 || rawLen > sums.ChunkBytes || len(dst) != rawLen {
		return invalidf("decode chunk: %d raw bytes into %d", rawLen, len(dst))
	}
	if !knownCodec(codec) {
		return &UnsupportedError{What: "chunk", Version: FormatVersion, Detail: fmt.Sprintf("codec %d", codec)}
	}
	want := rawLen
	if codec != CodecRaw {
		want = int(c.StoredBytes)
	}
	if want > rawLen || len(stored) != want {
		return badChunk(ReasonShort, "%d stored bytes, want %d", len(stored), want)
	}
	if c.StoredRaw(codec, rawLen) {
		if err := checkRaw(stored, c); err != nil {
			return err
		}
		copy(dst, stored)
		return nil
	}
	if got := sums.Chunk(stored); got != c.StoredSum {
		return badChunk(ReasonSum, "stored bytes: sum %016x, the header says %016x", got, c.StoredSum)
	}
	err := decode(dst, stored, codec)
	if err == nil {
		err = checkRaw(dst, c)
	}
	if err != nil {
		clear(dst)
	}
	return err
}

// VerifyStored compares the stored bytes of chunk c with their sum, without
// decoding them.
func VerifyStored(stored []byte, codec uint8, c Chunk, rawLen int) error {
	if c.StoredRaw(codec, rawLen) {
		return checkRaw(stored, c)
	}
	if got := sums.Chunk(stored); got != c.StoredSum {
		return badChunk(ReasonSum, "stored bytes: sum %016x, the header says %016x", got, c.StoredSum)
	}
	return nil
}

func checkRaw(p []byte, c Chunk) error {
	if got := sums.Chunk(p); got != c.RawSum {
		return badChunk(ReasonSum, "sum %016x, the header says %016x", got, c.RawSum)
	}
	return nil
}

func badChunk(reason, format string, args ...any) error {
	return &CorruptError{What: "chunk", Reason: reason, Err: fmt.Errorf(format, args...)}
}

// decode fills dst from verified stored bytes.
func decode(dst, stored []byte, codec uint8) error {
	if len(dst) < minCompressedChunkBytes {
		return badChunk(ReasonField, "a chunk of %d bytes is compressed", len(dst))
	}
	var n int
	var err error
	switch codec {
	case CodecZstd:
		n, err = zstdDecode(dst, stored)
	case CodecS2:
		n, err = s2Decode(dst, stored)
	}
	if err == nil && n != len(dst) {
		err = fmt.Errorf("it decodes to %d bytes, want %d", n, len(dst))
	}
	if err != nil {
		return badChunk(ReasonField, "codec %d: %w", codec, err)
	}
	return nil
}

var errDecodedElsewhere = errors.New("it was not decoded into the memory given")

// s2Decode looks at the length that the bytes claim before it decodes: the
// decoder would take memory for a longer one.
func s2Decode(dst, stored []byte) (int, error) {
	n, err := s2.DecodedLen(stored)
	if err != nil || n != len(dst) {
		return n, err
	}
	out, err := s2.Decode(dst[:0:len(dst)], stored)
	if err == nil && &out[0] != &dst[0] {
		err = errDecodedElsewhere
	}
	return len(out), err
}
