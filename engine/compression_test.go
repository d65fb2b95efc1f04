package engine

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

var codecModes = []Compression{CompressionS2, CompressionZstd}

// spaceWith opens the test namespace with options.
func spaceWith(t testing.TB, s *Store, o NamespaceOptions) *Namespace {
	t.Helper()
	n, err := s.Namespace(context.Background(), testLayout(), "tenant", o)
	if err != nil {
		t.Fatalf("namespace: %v", err)
	}
	return n
}

// codecOf is how a block is stored.
func codecOf(t testing.TB, s *Store, n *Namespace, id int) uint8 {
	t.Helper()
	e := entryOf(t, s, n, id)
	ext, sum, err := s.vol.ReadExtent(e.Address)
	if err != nil || sum != e.HeaderSum {
		t.Fatalf("header of block %d: %v", id, err)
	}
	return ext.Codec
}

// TestCompressedBlocks: blocks of all sizes come back, whole and in ranges, in
// this life and the next, from the index and from a rebuild, where they were
// put and where eviction moved them.
func TestCompressedBlocks(t *testing.T) {
	for _, mode := range codecModes {
		t.Run(mode.String(), func(t *testing.T) {
			checkLeaks(t)
			squeezed(t, mode)
			mem := vfs.NewMem()
			o := testOptions(mem)
			o.CapacityBytes, o.SegmentBytes, o.MaxBlockBytes = 64*mib, 2*mib, 1*mib
			s := mustOpen(t, o)
			n := mustSpace(t, s)
			sizes := []int{3, 4000, 13000, 65536 * 3, 65536*3 + 1, 300000, 1 << 20}
			for id, size := range sizes {
				r := mustPut(t, n, blockOf(id, 0, size))
				if codec := codecOf(t, s, n, id); (codec != disk.CodecRaw) != (size >= 13000) {
					t.Errorf("%d bytes: codec %d", size, codec)
				}
				if size >= 65536 && r.WrittenBytes > int64(size)*3/4 {
					t.Errorf("%d bytes take %d", size, r.WrittenBytes)
				}
			}
			if st := s.Stats(); st.CompressRawBytes == 0 || st.CompressStoredBytes >= st.CompressRawBytes {
				t.Errorf("%d bytes came to %d", st.CompressRawBytes, st.CompressStoredBytes)
			}
			check := func(t *testing.T, _ *Store, n *Namespace) {
				for id, size := range sizes {
					wantBlock(t, n, id, 0, size)
					wantRanges(t, n, id, size)
				}
			}
			check(t, s, n)
			mustFlush(t, s)
			moveAll(t, s, n, len(sizes))
			check(t, s, n)
			mustFlush(t, s)
			afterlives(t, s, mem, o, check)
			if r := mustVerify(t, mem); len(r.Damage) > 0 {
				t.Errorf("verify: %+v", r.Damage)
			}
		})
	}
}

// moveAll evicts the segment of the first blocks, all of which are used.
func moveAll(t *testing.T, s *Store, n *Namespace, blocks int) {
	t.Helper()
	before := entryOf(t, s, n, 0).Address.Segment
	s.mu.Lock()
	for _, seg := range s.active {
		if seg != nil {
			s.retireLocked(seg)
		}
	}
	s.mu.Unlock()
	mustPut(t, n, blockOf(9999, 0, 100))
	mustFlush(t, s)
	s.o.MoveShare = 1
	for id := range blocks {
		n.Touch(context.Background(), [][]byte{hashOf(id)})
	}
	for entryOf(t, s, n, 0).Address.Segment == before {
		if ok, err := s.EvictOnce(context.Background()); !ok || err != nil {
			t.Fatalf("evict: %v %v", ok, err)
		}
	}
}

// wantRanges reads parts of plane v.
func wantRanges(t *testing.T, n *Namespace, id, size int) {
	t.Helper()
	v := contentOf(id, 0, size)[size/3:]
	for _, r := range [][2]int{{0, 1}, {len(v) - 1, 1}, {len(v) / 2, len(v) / 4}, {len(v) / 3, len(v)/2 + 1}, {65535, 2}} {
		off, length := r[0], r[1]
		if off+length > len(v) || length == 0 {
			continue
		}
		p := make([]byte, length)
		got := n.Get(context.Background(), []GetBlock{{Hash: hashOf(id), Parts: []Part{
			{Plane: "v", OffsetBytes: int64(off), LengthBytes: int64(length), Spans: [][]byte{p}},
		}}}, GetOptions{})[0]
		if got.Status != StatusOK || !bytes.Equal(p, v[off:off+length]) {
			t.Fatalf("block %d of %d bytes, %d from %d: %v %v", id, size, length, off, got.Status, got.Err)
		}
		if most := int64(length) + 2*65536; got.VerifiedBytes > most {
			t.Errorf("block %d: %d bytes from %d: %d were read for it", id, length, off, got.VerifiedBytes)
		}
	}
}

// TestLaw1FlipCompressed damages a compressed extent byte by byte: the block is
// lost, or the byte is one that nothing depends on, and verify says so.
func TestLaw1FlipCompressed(t *testing.T) {
	for _, mode := range codecModes {
		t.Run(mode.String(), func(t *testing.T) {
			squeezed(t, mode)
			mem := vfs.NewMem()
			s := mustOpen(t, testOptions(mem))
			n := mustSpace(t, s)
			mustPut(t, n, blockOf(0, 0, raceSize))
			mustFlush(t, s)
			e := entryOf(t, s, n, 0)
			if codecOf(t, s, n, 0) == disk.CodecRaw {
				t.Fatal("the block is not compressed")
			}
			mustClose(t, s)
			step := int64(17)
			if testing.Short() {
				step = 211
			}
			lost := 0
			for off := e.Address.Offset(); off < e.Address.Offset()+e.Bytes(); off += step {
				if flippedIsLost(t, mem.CrashClone(vfs.CrashOptions{KeepAll: true}), disk.SegmentName(e.Address.Segment), off) {
					lost++
				}
			}
			if lost == 0 {
				t.Error("nothing was found bad")
			}
		})
	}
}

func flippedIsLost(t *testing.T, fs *vfs.Mem, file string, off int64) bool {
	t.Helper()
	flipByte(t, fs, file, off)
	if r := mustVerify(t, fs); len(r.Damage) == 0 {
		t.Fatalf("byte %d of %s: verify finds nothing", off, file)
	}
	s := mustOpen(t, testOptions(fs))
	defer mustClose(t, s)
	p, r := getBlock(t, mustSpace(t, s), 0, raceSize)
	switch {
	case r.Status == StatusCorrupt:
		return true
	case r.Status != StatusOK || !bytes.Equal(p, contentOf(0, 0, raceSize)):
		t.Fatalf("byte %d of %s: %v %v", off, file, r.Status, r.Err)
	}
	return false
}

// TestSharingAcrossCodecs: equal content is shared whatever it is stored with,
// and content that differs is not.
func TestSharingAcrossCodecs(t *testing.T) {
	modes := []Compression{CompressionOff, CompressionS2, CompressionZstd}
	for _, first := range modes {
		for _, second := range modes {
			t.Run(first.String()+" then "+second.String(), func(t *testing.T) {
				checkLeaks(t)
				squeezed(t, first)
				mem := vfs.NewMem()
				o := testOptions(mem)
				s := mustOpen(t, o)
				n := mustSpace(t, s)
				mustPut(t, n, blockOf(0, 0, raceSize))
				mustFlush(t, s)
				later := spaceWith(t, s, NamespaceOptions{Compression: second})
				if r := mustPut(t, later, twinOf(1)); !r.Shared || r.WrittenBytes > disk.PageBytes {
					t.Errorf("equal content: %+v", r)
				}
				if r := mustPut(t, later, blockOf(2, 1, raceSize)); r.Shared {
					t.Errorf("other content: %+v", r)
				}
				mustFlush(t, s)
				afterlives(t, s, mem, o, func(t *testing.T, _ *Store, n *Namespace) {
					wantBlock(t, n, 0, 0, raceSize)
					wantTwin(t, n, 1)
					wantBlock(t, n, 2, 1, raceSize)
				})
			})
		}
	}
}

// TestCompressionAuto: what compresses is compressed once the first blocks have
// shown it, what does not is left alone, and both are looked at again later.
func TestCompressionAuto(t *testing.T) {
	checkLeaks(t)
	o := testOptions(vfs.NewMem())
	o.CapacityBytes = 64 * mib
	s := mustOpen(t, o)
	n := spaceWith(t, s, NamespaceOptions{Compression: CompressionAuto})
	if st := n.Compression(); st.Active || st.SavingShare >= 0 || st.Mode != CompressionAuto {
		t.Fatalf("at first: %+v", st)
	}
	put := func(first, blocks int) {
		t.Helper()
		for ; blocks > 0; first, blocks = first+200, blocks-200 {
			for _, r := range putAll(n, idsFrom(first, min(blocks, 200)), func(int) int { return 15000 }) {
				if r.Status != StatusOK {
					t.Fatalf("%v %v", r.Status, r.Err)
				}
			}
			mustFlush(t, s)
		}
	}
	put(0, autoSampleBlocks)
	if st := n.Compression(); st.Active || st.Decisions != 1 || st.SavingShare > 0.05 {
		t.Fatalf("after noise: %+v", st)
	}
	squeezed(t, CompressionOff)
	put(1000, autoPeriodBlocks+autoSampleBlocks-1)
	if st := n.Compression(); st.Active || st.Decisions != 1 {
		t.Fatalf("one block before the next judgement: %+v", st)
	}
	put(5000, 1)
	if st := n.Compression(); !st.Active || st.Decisions != 2 || st.SavingShare < 0.3 {
		t.Fatalf("after blocks that compress: %+v", st)
	}
	put(5001, 1)
	if codecOf(t, s, n, 5000) != disk.CodecRaw || codecOf(t, s, n, 5001) != disk.CodecS2 {
		t.Error("the judgement does not hold for the next block alone")
	}
	if ev := eventsOf(s, EventCompression); len(ev) != 2 || !strings.Contains(ev[0].Message, "off") || !strings.Contains(ev[1].Message, "on") {
		t.Errorf("events: %v", ev)
	}
	bumped, err := n.BumpEpoch(context.Background())
	if err != nil || !bumped.Compression().Active {
		t.Errorf("the next epoch starts anew: %v", err)
	}
	mustClose(t, s)
}

// TestCompressorModel holds the compressor to its rules over random blocks.
func TestCompressorModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCompressor(NamespaceOptions{Compression: CompressionAuto, MinSavingShare: 0.2})
		sampled, blocks := 0, 0
		for range rapid.IntRange(0, 3000).Draw(t, "blocks") {
			saves := rapid.SampledFrom([]int64{0, 10, 30, 90}).Draw(t, "saves")
			blocks++
			was := c.state()
			codec, sample := c.codec()
			if (codec != disk.CodecRaw) != was.Active || sample && was.Active {
				t.Fatalf("%+v: codec %d, sample %v", was, codec, sample)
			}
			if codec != disk.CodecRaw || sample {
				if sample {
					sampled++
				}
				c.note(100, 100-saves)
			} else {
				c.passed()
			}
			now := c.state()
			if now.Active != was.Active && now.Decisions == was.Decisions {
				t.Fatal("switched without a judgement")
			}
			if now.Decisions > was.Decisions && now.Active != (now.SavingShare >= 0.2) {
				t.Fatalf("judged %+v", now)
			}
		}
		if most := autoSampleBlocks * (2 + blocks/autoPeriodBlocks); sampled > most {
			t.Fatalf("%d of %d blocks were sampled", sampled, blocks)
		}
	})
}

func TestCompressionOptions(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	for name, o := range map[string]NamespaceOptions{
		"no such mode":      {Compression: CompressionZstd + 1},
		"negative share":    {Compression: CompressionAuto, MinSavingShare: -0.1},
		"a share of all":    {Compression: CompressionAuto, MinSavingShare: 1},
		"both, auto":        {Compression: CompressionAuto, GPUDirect: true},
		"both, and decided": {Compression: CompressionS2, GPUDirect: true},
	} {
		if _, err := s.Namespace(context.Background(), testLayout(), "tenant", o); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	squeezed(t, CompressionOff)
	n := spaceWith(t, s, NamespaceOptions{Compression: CompressionS2})
	mustPut(t, n, blockOf(0, 0, raceSize))
	spaceWith(t, s, NamespaceOptions{GPUDirect: true})
	mustPut(t, n, blockOf(1, 0, raceSize))
	if codecOf(t, s, n, 0) != disk.CodecS2 || codecOf(t, s, n, 1) != disk.CodecRaw || n.Compression().Active {
		t.Error("the mark of GPUDirect does not hold an older handle")
	}
	wantBlock(t, n, 0, 0, raceSize)
	if _, err := s.Namespace(context.Background(), testLayout(), "tenant", NamespaceOptions{Compression: CompressionAuto}); !errors.Is(err, ErrInvalid) {
		t.Errorf("a compressing handle of a marked namespace: %v", err)
	}
	if o, err := s.Namespace(context.Background(), testLayout(), "another", NamespaceOptions{Compression: CompressionAuto}); err != nil || o.Compression().Mode.String() != "auto" {
		t.Errorf("another tenant: %v", err)
	}
	mustClose(t, s)
}

// TestCompressedGroupIsOneWrite: compression leaves gaps between the images of
// a group; they are closed.
func TestCompressedGroupIsOneWrite(t *testing.T) {
	checkLeaks(t)
	squeezed(t, CompressionS2)
	w := &segmentWrites{}
	o := testOptions(vfs.WithHook(vfs.NewMem(), w.hook))
	o.CapacityBytes, o.SegmentBytes = 64*mib, 8*mib
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	ids := idsFrom(0, 40)
	size := func(id int) int { return 3000 + 1500*(id%10)*(id%10)/3 }
	for i, r := range putAll(n, ids, size) {
		if r.Status != StatusOK {
			t.Fatalf("block %d: %v %v", i, r.Status, r.Err)
		}
	}
	if got := w.n.Load(); got != 1 {
		t.Errorf("%d writes", got)
	}
	for _, id := range ids {
		wantBlock(t, n, id, 0, size(id))
	}
	wantNoBuffers(t, s)
	mustClose(t, s)
}

// TestCompressInPlace holds an image's compression to the codec of package
// disk: what it leaves in memory is an extent that decodes to the same bytes.
func TestCompressInPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		squeeze = nil
		if rapid.Bool().Draw(t, "soft") {
			squeeze = &squeezing{}
			defer func() { squeeze = nil }()
		}
		planes := drawPlanes(t)
		codec := rapid.SampledFrom([]uint8{disk.CodecS2, disk.CodecZstd}).Draw(t, "codec")
		img, buf := builtImage(t, planes)
		defer buf.Free()
		before := sealOfExtent(&img.ext)
		stored := img.compress(codec, make([]byte, 0, disk.EncodeRoomBytes))
		checkCompressed(t, img, planes, before, stored)
	})
}

func checkCompressed(t *rapid.T, img *image, planes [][]byte, before *Seal, stored int64) {
	e := &img.ext
	payload, sum := img.payload(), int64(0)
	e.EachChunk(0, len(e.Chunks), func(c disk.StoredChunk) bool {
		raw := make([]byte, c.RawLen)
		if err := disk.DecodeChunk(raw, payload[c.PayloadOff:][:c.StoredLen], e.Codec, e.Chunks[c.Index], c.RawLen); err != nil {
			t.Fatalf("chunk %d: %v", c.Index, err)
		}
		if !bytes.Equal(raw, planes[c.Plane][c.PlaneOff:][:c.RawLen]) {
			t.Fatalf("chunk %d has other bytes", c.Index)
		}
		sum += int64(c.StoredLen)
		end := (c.PayloadOff + int64(c.StoredLen) + disk.PageBytes - 1) &^ (disk.PageBytes - 1)
		if c.EndsPlane && !allZero(payload[c.PayloadOff+int64(c.StoredLen):end]) {
			t.Fatalf("the fill behind plane %d is not zero", c.Plane)
		}
		return true
	})
	if sum != stored || e.ContentID != before.ContentID || int64(e.Pages()) > int64(len(img.buf.Bytes()))/disk.PageBytes {
		t.Fatalf("%d stored bytes, told %d; content %x, was %x", sum, stored, e.ContentID, before.ContentID)
	}
	e.Address = disk.Address{Segment: 1, Page: 1}
	s := &Store{}
	if _, err := s.encodeHeader(img); err != nil {
		t.Fatal(err)
	}
	if _, _, err := disk.DecodeExtent(img.bytes(), s.key); err != nil {
		t.Fatal(err)
	}
}
