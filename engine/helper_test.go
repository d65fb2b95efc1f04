package engine

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/vfs"
)

// testOptions is a small store that does nothing by itself: tests drive sync,
// applier and eviction.
func testOptions(fs vfs.FS) Options {
	return Options{
		CapacityBytes: 8 * mib, FreeFloorBytes: 1, MaxBlockBytes: 64 * kib, SegmentBytes: 256 * kib,
		MaxInflightBytes: 8 * mib, IndexCacheBytes: 1 * mib, CallTimeout: 30 * time.Second,
		private: privateOptions{
			fs: fs, noBackground: true, memTableBytes: 256 * kib,
			logFileBytes: 64 * kib, indexBytes: 1 * mib,
			uuid: [16]byte{1, 2, 3}, secret: [32]byte{4, 5, 6},
			now: func() time.Time { return time.Unix(1_700_000_000, 0) },
		},
	}
}

func testLayout() layout.Layout {
	l := layout.Opaque("test")
	l.Planes = []layout.Plane{{Name: "k"}, {Name: "v"}}
	return l
}

// mustOpen opens and closes with the test.
func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open("mem", o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return s
}

func mustClose(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func mustSpace(t testing.TB, s *Store) *Namespace {
	t.Helper()
	n, err := s.Namespace(context.Background(), testLayout(), "tenant", NamespaceOptions{Compression: squeeze.next()})
	if err != nil {
		t.Fatalf("namespace: %v", err)
	}
	return n
}

func hashOf(id int) []byte {
	h := sha256.Sum256([]byte(fmt.Sprintf("block %d", id)))
	return h[:]
}

// contentOf makes bytes that nobody else has, from an id and a variant.
func contentOf(id, variant, size int) []byte {
	p := make([]byte, size)
	x := uint64(id)*0x9e3779b97f4a7c15 + uint64(variant)*0xbf58476d1ce4e5b9 + 1
	for i := 0; i+8 <= len(p); i += 8 {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		if squeeze == nil || i%64 < 16 {
			binary.LittleEndian.PutUint64(p[i:], x)
		}
	}
	return p
}

// squeeze, while a test has set it, lets contentOf make bytes that compress
// and mustSpace give handles that compress them, one mode after the other. No
// test that sets it runs beside others.
var squeeze *squeezing

type squeezing struct {
	modes  []Compression
	opened int
}

func (s *squeezing) next() Compression {
	if s == nil {
		return CompressionOff
	}
	s.opened++
	return s.modes[s.opened%len(s.modes)]
}

// squeezed sets squeeze until the test ends.
func squeezed(t testing.TB, modes ...Compression) {
	squeeze = &squeezing{modes: modes}
	t.Cleanup(func() { squeeze = nil })
}

// blockOf is a block of two planes, a third and the rest.
func blockOf(id, variant, size int) PutBlock {
	p := contentOf(id, variant, size)
	cut := size / 3
	return PutBlock{Hash: hashOf(id), Planes: []PlaneData{
		{Name: "v", Spans: [][]byte{p[cut : cut+1], p[cut+1:]}},
		{Name: "k", Spans: [][]byte{p[:cut]}},
	}}
}

func putOne(n *Namespace, b PutBlock) PutResult {
	return n.Put(context.Background(), []PutBlock{b}, PutOptions{})[0]
}

func mustPut(t testing.TB, n *Namespace, b PutBlock) PutResult {
	t.Helper()
	r := putOne(n, b)
	if r.Status != StatusOK {
		t.Fatalf("put %x: %v %v", b.Hash[:4], r.Status, r.Err)
	}
	return r
}

// getBlock reads a block of the given size; the destination is poisoned, so
// that a status other than OK can be held to leaving it alone.
func getBlock(t testing.TB, n *Namespace, id, size int) ([]byte, GetResult) {
	t.Helper()
	p := make([]byte, size)
	for i := range p {
		p[i] = 0xa5
	}
	cut := size / 3
	r := n.Get(context.Background(), []GetBlock{{Hash: hashOf(id), Parts: []Part{
		{Plane: "k", Spans: [][]byte{p[:cut]}}, {Plane: "v", Spans: [][]byte{p[cut:]}},
	}}}, GetOptions{})[0]
	if r.Status != StatusOK {
		for i := range p {
			if p[i] != 0xa5 {
				t.Fatalf("get %d: status %v and byte %d of the destination was written", id, r.Status, i)
			}
		}
	}
	return p, r
}

func wantBlock(t testing.TB, n *Namespace, id, variant, size int) {
	t.Helper()
	p, r := getBlock(t, n, id, size)
	if r.Status != StatusOK {
		t.Fatalf("get %d: %v %v", id, r.Status, r.Err)
	}
	if string(p) != string(contentOf(id, variant, size)) {
		t.Fatalf("get %d: WRONG BYTES with status OK", id)
	}
}

func wantStatus(t testing.TB, n *Namespace, id, size int, want Status) {
	t.Helper()
	if _, r := getBlock(t, n, id, size); r.Status != want {
		t.Fatalf("get %d: status %v (%v), want %v", id, r.Status, r.Err, want)
	}
}

func mustFlush(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Flush(context.Background()); err != nil {
		t.Fatalf("flush: %v", err)
	}
}
