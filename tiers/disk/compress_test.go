package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/sums"
)

func TestChunkRoundTrip(t *testing.T) {
	defer goleak.VerifyNone(t)
	scratch := make([]byte, 0, EncodeRoomBytes)
	rapid.Check(t, func(t *rapid.T) {
		codec := rapid.SampledFrom([]uint8{CodecRaw, CodecZstd, CodecS2}).Draw(t, "codec")
		n := rapid.OneOf(rapid.IntRange(1, sums.ChunkBytes), rapid.SampledFrom([]int{1, minCompressedChunkBytes - 1, minCompressedChunkBytes, sums.ChunkBytes})).Draw(t, "bytes")
		raw := mixedBytes(rapid.Uint64().Draw(t, "seed"), n, rapid.SampledFrom([]float64{0, 0.01, 0.3, 0.9, 1}).Draw(t, "noise"))
		stored, c := raw, Chunk{RawSum: sums.Chunk(raw)}
		if codec != CodecRaw {
			if s := EncodeChunk(scratch, raw, codec); s != nil {
				stored = s
			}
			c.StoredBytes, c.StoredSum = uint32(len(stored)), sums.Chunk(stored)
		}
		if len(stored) > len(raw) {
			t.Fatalf("%d bytes are stored as %d", len(raw), len(stored))
		}
		dst := bytes.Repeat([]byte{0x55}, n+16)
		if err := DecodeChunk(dst[:n], stored, codec, c, n); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(dst[:n], raw) {
			t.Fatal("other bytes came back")
		}
		if !bytes.Equal(dst[n:], bytes.Repeat([]byte{0x55}, 16)) {
			t.Fatal("bytes behind the chunk were written")
		}
		if err := VerifyStored(stored, codec, c, n); err != nil {
			t.Fatal(err)
		}
	})
}

// What compresses is compressed, what does not is stored raw.
func TestEncodeChunkChooses(t *testing.T) {
	scratch := make([]byte, 0, EncodeRoomBytes)
	for name, codec := range map[string]uint8{"zstd": CodecZstd, "s2": CodecS2} {
		zeros := EncodeChunk(scratch, make([]byte, sums.ChunkBytes), codec)
		if len(zeros) == 0 || len(zeros) > 100 {
			t.Errorf("%s: 64 KiB of zeros take %d bytes", name, len(zeros))
		}
		if got := EncodeChunk(scratch, mixedBytes(1, sums.ChunkBytes, 1), codec); got != nil {
			t.Errorf("%s: noise is stored compressed, %d bytes", name, len(got))
		}
		if got := EncodeChunk(scratch, make([]byte, minCompressedChunkBytes-1), codec); got != nil {
			t.Errorf("%s: a short chunk is stored compressed", name)
		}
	}
	if got := EncodeChunk(scratch, make([]byte, sums.ChunkBytes), CodecRaw); got != nil {
		t.Errorf("raw: %d bytes", len(got))
	}
}

// The scratch is large enough for whatever is encoded: no codec allocates.
func TestEncodeRoom(t *testing.T) {
	enc, err := zstdEncoder()
	must(t, err)
	if n := max(s2.MaxEncodedLen(sums.ChunkBytes), enc.MaxEncodedSize(sums.ChunkBytes)); n > EncodeRoomBytes {
		t.Errorf("a chunk may take %d bytes, room is for %d", n, EncodeRoomBytes)
	}
}

// Any changed byte of the stored form, and any other length, is found, and the
// destination then holds old bytes or zeros.
func TestDecodeChunkFindsEveryChange(t *testing.T) {
	raw := mixedBytes(3, sums.ChunkBytes, 0.02)
	for name, codec := range testCodecs {
		t.Run(name, func(t *testing.T) {
			stored, c := encodeChunk(raw, codec)
			step := 1 + len(stored)/2000
			dst := make([]byte, len(raw))
			for i := 0; i < len(stored); i += step {
				bad := bytes.Clone(stored)
				bad[i] ^= 0x20
				fillByte(dst, 0x77)
				if err := DecodeChunk(dst, bad, codec, c, len(raw)); !errors.Is(err, ErrCorrupt) {
					t.Fatalf("byte %d: %v", i, err)
				}
				checkOldOrZero(t, dst)
				// The sum of the stored bytes made to fit: decoding and the raw
				// sum are left to find it, unless it decodes to the same bytes.
				forged := c
				if codec != CodecRaw {
					forged.StoredSum = sums.Chunk(bad)
				}
				fillByte(dst, 0x77)
				err := DecodeChunk(dst, bad, codec, forged, len(raw))
				if err == nil && bytes.Equal(dst, raw) && codec != CodecRaw {
					continue
				}
				if !errors.Is(err, ErrCorrupt) {
					t.Fatalf("byte %d under a fitting sum: %v", i, err)
				}
				checkOldOrZero(t, dst)
			}
			for _, n := range []int{0, 1, len(stored) - 1} {
				if err := DecodeChunk(dst, stored[:n], codec, c, len(raw)); !errors.Is(err, ErrCorrupt) {
					t.Errorf("cut to %d: %v", n, err)
				}
			}
			if err := DecodeChunk(dst, append(bytes.Clone(stored), 0), codec, c, len(raw)); !errors.Is(err, ErrCorrupt) {
				t.Errorf("one byte more: %v", err)
			}
		})
	}
}

func fillByte(p []byte, b byte) {
	for i := range p {
		p[i] = b
	}
}

func checkOldOrZero(t *testing.T, dst []byte) {
	t.Helper()
	if allZero(dst) {
		return
	}
	if i := slices.IndexFunc(dst, func(b byte) bool { return b != 0x77 }); i >= 0 {
		t.Fatalf("byte %d of the destination is %#x after an error", i, dst[i])
	}
}

// bombs are stored forms with fitting sums that decode to something else than
// the chunk table says, most of them to much more.
func bombs(t testing.TB) map[string]storedForm {
	enc, err := zstd.NewWriter(nil)
	must(t, err)
	defer enc.Close()
	large := make([]byte, 64<<20)
	half := make([]byte, sums.ChunkBytes/2)
	streamed, err := zstd.NewWriter(nil, zstd.WithSingleSegment(false))
	must(t, err)
	var noLength bytes.Buffer
	streamed.Reset(&noLength)
	_, err = streamed.Write(large)
	must(t, err)
	must(t, streamed.Close())
	// A frame that names 64 KiB and whose one block repeats a byte 2 MiB times.
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0xa0}
	frame = binary.LittleEndian.AppendUint32(frame, sums.ChunkBytes)
	rle := append(slices.Clone(frame), 0x03, 0xff, 0xff, 0)
	rle = append(rle, 0)
	twoFrames := append(enc.EncodeAll(half, nil), enc.EncodeAll(half, nil)...)
	return map[string]storedForm{
		"zstd of 64 MiB":               {CodecZstd, enc.EncodeAll(large, nil)},
		"zstd without a length":        {CodecZstd, noLength.Bytes()},
		"zstd of half a chunk":         {CodecZstd, enc.EncodeAll(half, nil)},
		"zstd, two frames":             {CodecZstd, twoFrames},
		"zstd, a repeated byte":        {CodecZstd, rle},
		"zstd, no block":               {CodecZstd, frame},
		"zstd, something behind it":    {CodecZstd, append(slices.Clone(rle), 1, 2, 3)},
		"zstd, skippable":              {CodecZstd, []byte{0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4}},
		"zstd, nothing":                {CodecZstd, []byte{0}},
		"s2 of 64 MiB":                 {CodecS2, s2.Encode(nil, large)},
		"s2 of half a chunk":           {CodecS2, s2.Encode(nil, half)},
		"s2 that names 4 GiB":          {CodecS2, []byte{0xff, 0xff, 0xff, 0xff, 0x0f, 0}},
		"s2, a length and no content":  {CodecS2, binary.AppendUvarint(nil, sums.ChunkBytes)},
		"s2, a stream instead of one":  {CodecS2, []byte("\xff\x06\x00\x00S2sTwO")},
		"zstd taken for s2":            {CodecS2, enc.EncodeAll(make([]byte, sums.ChunkBytes), nil)},
		"s2 taken for zstd":            {CodecZstd, s2.Encode(nil, make([]byte, sums.ChunkBytes))},
		"zstd with a checksum, longer": {CodecZstd, enc.EncodeAll(make([]byte, sums.ChunkBytes+1), nil)},
	}
}

// storedForm is a stored form with its codec.
type storedForm struct {
	codec  uint8
	stored []byte
}

func TestDecodeChunkIsBounded(t *testing.T) {
	dst := make([]byte, sums.ChunkBytes)
	warm, c := encodeChunk(dst, CodecZstd)
	must(t, DecodeChunk(dst, warm, CodecZstd, c, len(dst))) // the decoder's own memory
	for name, b := range bombs(t) {
		t.Run(name, func(t *testing.T) {
			if len(b.stored) > sums.ChunkBytes {
				b.stored = b.stored[:sums.ChunkBytes-1]
			}
			c := Chunk{RawSum: sums.Chunk(dst), StoredBytes: uint32(len(b.stored)), StoredSum: sums.Chunk(b.stored)}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := DecodeChunk(dst, b.stored, b.codec, c, len(dst))
			runtime.ReadMemStats(&after)
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
				t.Errorf("it took %d bytes", n)
			}
		})
	}
}

func TestDecodeChunkArguments(t *testing.T) {
	raw := make([]byte, sums.ChunkBytes)
	stored, c := encodeChunk(raw, CodecS2)
	short := Chunk{RawSum: sums.Chunk(raw[:100]), StoredBytes: 50, StoredSum: sums.Chunk(stored[:50])}
	for name, tc := range map[string]struct {
		dst    []byte
		stored []byte
		codec  uint8
		c      Chunk
		rawLen int
		want   error
		text   string
	}{
		"room of another size": {raw[:9], stored, CodecS2, c, len(raw), ErrInvalid, ""},
		"no bytes":             {nil, nil, CodecS2, c, 0, ErrInvalid, ""},
		"negative":             {nil, nil, CodecS2, c, -1, ErrInvalid, ""},
		"more than a chunk":    {make([]byte, len(raw)+1), stored, CodecS2, c, len(raw) + 1, ErrInvalid, ""},
		"unknown codec":        {raw, stored, CodecS2 + 1, c, len(raw), ErrUnsupported, "codec 3"},
		"short and compressed": {raw[:100], stored[:50], CodecS2, short, 100, ErrCorrupt, "100 bytes is compressed"},
		"longer than raw":      {raw[:100], stored, CodecS2, Chunk{StoredBytes: 101}, 100, ErrCorrupt, ""},
		"another codec":        {raw, stored, CodecZstd, c, len(raw), ErrCorrupt, "codec 1"},
	} {
		err := DecodeChunk(tc.dst, tc.stored, tc.codec, tc.c, tc.rawLen)
		if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v, want %v with %q", name, err, tc.want, tc.text)
		}
	}
}

func TestDecodeChunkAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("under the race detector sync.Pool drops some of what it is given")
	}
	raw := mixedBytes(5, sums.ChunkBytes, 0.2)
	dst, scratch := make([]byte, len(raw)), make([]byte, 0, EncodeRoomBytes)
	for name, codec := range testCodecs {
		stored, c := encodeChunk(raw, codec)
		if n := testing.AllocsPerRun(50, func() {
			if err := DecodeChunk(dst, stored, codec, c, len(raw)); err != nil {
				t.Fatal(err)
			}
			EncodeChunk(scratch, raw, codec)
		}); n > 0.5 { // a collection in between may empty the codecs' pools
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkChunk(b *testing.B) {
	for _, noise := range []float64{0, 0.3, 1} {
		raw := mixedBytes(5, sums.ChunkBytes, noise)
		dst, scratch := make([]byte, len(raw)), make([]byte, 0, EncodeRoomBytes)
		for _, name := range []string{"s2", "zstd"} {
			codec := testCodecs[name]
			stored, c := encodeChunk(raw, codec)
			suffix := name + map[float64]string{0: "/even", 0.3: "/mixed", 1: "/noise"}[noise]
			b.Run("encode/"+suffix, func(b *testing.B) {
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				for b.Loop() {
					EncodeChunk(scratch, raw, codec)
				}
				b.ReportMetric(float64(len(stored))/float64(len(raw)), "stored/raw")
			})
			b.Run("decode/"+suffix, func(b *testing.B) {
				b.SetBytes(int64(len(raw)))
				b.ReportAllocs()
				for b.Loop() {
					if err := DecodeChunk(dst, stored, codec, c, len(raw)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// FuzzDecodeChunk gives the decoders bytes of any kind under sums that fit, so
// that they reach the codec: the answer is an error, or bytes that fit too.
func FuzzDecodeChunk(f *testing.F) {
	for _, codec := range []uint8{CodecZstd, CodecS2} {
		for _, noise := range []float64{0, 0.1} {
			stored, _ := encodeChunk(mixedBytes(1, 8000, noise), codec)
			f.Add(codec, uint16(8000-1), stored)
		}
	}
	for _, b := range bombs(f) {
		if len(b.stored) < 4096 {
			f.Add(b.codec, uint16(sums.ChunkBytes-1), b.stored)
		}
	}
	f.Fuzz(func(t *testing.T, codec uint8, last uint16, stored []byte) {
		rawLen := int(last) + 1
		dst := bytes.Repeat([]byte{0x77}, rawLen+8)
		c := Chunk{StoredBytes: uint32(len(stored)), StoredSum: sums.Chunk(stored)}
		// Once with any raw sum, and once with that of what it decodes to.
		if knownCodec(codec) && codec != CodecRaw && len(stored) < rawLen {
			trial := make([]byte, rawLen)
			if decode(trial, stored, codec) == nil {
				c.RawSum = sums.Chunk(trial)
			}
		}
		err := DecodeChunk(dst[:rawLen:rawLen], stored, codec, c, rawLen)
		if err == nil && sums.Chunk(dst[:rawLen]) != c.RawSum {
			t.Fatal("bytes that do not match their sum")
		}
		if err != nil {
			checkOldOrZero(t, dst[:rawLen])
		}
		if !bytes.Equal(dst[rawLen:], bytes.Repeat([]byte{0x77}, 8)) {
			t.Fatal("bytes behind the destination were written")
		}
	})
}
