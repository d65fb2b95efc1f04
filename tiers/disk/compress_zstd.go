package disk

import (
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/sealstone/sealstone/internal/sums"
)

const zstdBlockHeaderBytes = 3

// The coders of the process. They are made at first use, hold one state per
// processor, which calls take in turn, start no goroutine, and so need no
// Close.
var (
	zstdEncoder = sync.OnceValues(newZstdEncoder)
	zstdDecoder = sync.OnceValues(newZstdDecoder)
)

// newZstdEncoder: fastest level, as a cache writes more than it reads; frames
// name their length and have no checksum, since the chunk table has both.
func newZstdEncoder() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil,
		zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithWindowSize(sums.ChunkBytes),
		zstd.WithSingleSegment(true),
		zstd.WithEncoderCRC(false),
		zstd.WithLowerEncoderMem(true),
	)
}

// newZstdDecoder: no frame may want more memory than a chunk has.
func newZstdDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil,
		zstd.WithDecoderConcurrency(0), // one state per processor
		zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(sums.ChunkBytes),
		zstd.WithDecoderMaxMemory(sums.ChunkBytes),
		zstd.WithDecodeAllCapLimit(true),
	)
}

func zstdEncode(dst, raw []byte) []byte {
	enc, err := zstdEncoder()
	if err != nil { // options of ours that the library refuses: stored raw
		return nil
	}
	return enc.EncodeAll(raw, dst)
}

// zstdDecode decodes a frame of exactly the form that the format has: see
// checkZstdFrame.
func zstdDecode(dst, stored []byte) (int, error) {
	if err := checkZstdFrame(stored, len(dst)); err != nil {
		return 0, err
	}
	dec, err := zstdDecoder()
	if err != nil {
		return 0, err
	}
	out, err := dec.DecodeAll(stored, dst[:0:len(dst)])
	if err != nil {
		return 0, err
	}
	if len(out) > 0 && &out[0] != &dst[0] {
		return 0, errDecodedElsewhere
	}
	return len(out), nil
}

// checkZstdFrame allows one frame of one block, with its length and nothing
// else. What decodes to more than rawLen bytes is refused before it is
// decoded, or within the block by the decoder.
func checkZstdFrame(stored []byte, rawLen int) error {
	var h zstd.Header
	if err := h.Decode(stored); err != nil {
		return err
	}
	b := &h.FirstBlock
	switch {
	case h.Skippable || !h.SingleSegment || h.HasCheckSum || h.DictionaryID != 0:
		return errors.New("not a plain frame of a single segment")
	case !h.HasFCS || h.FrameContentSize != uint64(rawLen):
		return fmt.Errorf("a frame of %d bytes, want %d", h.FrameContentSize, rawLen)
	case !b.OK || !b.Last:
		return errors.New("not a single block")
	case h.HeaderSize+zstdBlockHeaderBytes+b.CompressedSize != len(stored):
		return errors.New("the block does not end with the stored bytes")
	case b.DecompressedSize != 0 && b.DecompressedSize != rawLen: // 0: only the decoder knows
		return fmt.Errorf("a block of %d bytes, want %d", b.DecompressedSize, rawLen)
	}
	return nil
}
