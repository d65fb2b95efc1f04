package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// plainKey is the key of a test's block: short, or of the greatest length.
func plainKey(id int) []byte {
	k := []byte(fmt.Sprintf("key/%d", id))
	if id%3 == 0 {
		k = append(k, bytes.Repeat([]byte{0, 0xff, '\r', '\n'}, 128)...)[:MaxPlainKeyBytes]
	}
	return k
}

// keyed puts a block under its plain key.
func keyed(id int, b PutBlock) PutBlock {
	b.PlainKey = plainKey(id)
	b.Hash = KeyHash(b.PlainKey)
	return b
}

func statOne(n *Namespace, hash []byte) BlockStat {
	return n.Stat(context.Background(), [][]byte{hash})[0]
}

// wantKeyed fails unless the header of a block names its plain key and parent.
func wantKeyed(t testing.TB, n *Namespace, id int, parent []byte) {
	t.Helper()
	st := statOne(n, KeyHash(plainKey(id)))
	if st.Status != StatusOK || !bytes.Equal(st.PlainKey, plainKey(id)) || !bytes.Equal(st.Parent, parent) {
		t.Errorf("block %d: %v %v, plain key %q, parent %x", id, st.Status, st.Err, st.PlainKey, st.Parent)
	}
}

func TestPlainKeyRefused(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	long := bytes.Repeat([]byte("k"), MaxPlainKeyBytes+1)
	for _, c := range []struct {
		name      string
		hash, key []byte
		want      Status
		reason    string
	}{
		{"none", hashOf(1), nil, StatusOK, ""},
		{"empty", hashOf(2), []byte{}, StatusOK, ""},
		{"one byte", KeyHash([]byte{0}), []byte{0}, StatusOK, ""},
		{"longest", KeyHash(long[:512]), long[:512], StatusOK, ""},
		{"too long", KeyHash(long), long, StatusInvalid, "513 bytes: at most 512"},
		{"hash of another", KeyHash([]byte("b")), []byte("a"), StatusInvalid, "KeyHash"},
		{"hash cut", KeyHash([]byte("a"))[:16], []byte("a"), StatusInvalid, "KeyHash"},
		{"hash longer", append(KeyHash([]byte("a")), 0), []byte("a"), StatusInvalid, "KeyHash"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := blockOf(1, 0, 5000)
			b.Hash, b.PlainKey = c.hash, c.key
			r := putOne(n, b)
			if r.Status != c.want {
				t.Fatalf("%v %v", r.Status, r.Err)
			}
			if c.want != StatusOK && (!errors.Is(r.Err, ErrInvalid) || !strings.Contains(r.Err.Error(), c.reason)) {
				t.Errorf("%v", r.Err)
			}
			if st := statOne(n, c.hash); c.want == StatusOK && !bytes.Equal(st.PlainKey, c.key) || c.want != StatusOK && st.Status != StatusMiss {
				t.Errorf("stored with %q, %v", st.PlainKey, st.Status)
			}
		})
	}
}

// TestPlainKeyIsCopied: the caller's bytes may change when Put returned.
func TestPlainKeyIsCopied(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	b := keyed(0, blockOf(0, 0, 5000))
	mustPut(t, n, b)
	clear(b.PlainKey)
	wantKeyed(t, n, 0, nil)
}

// TestPlainKeyFirstWins: a second put of the key changes nothing of the header.
func TestPlainKeyFirstWins(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	bare := keyed(1, blockOf(1, 0, 5000))
	bare.PlainKey = nil
	mustPut(t, n, bare)
	if r := mustPut(t, n, keyed(1, blockOf(1, 0, 5000))); !r.Existed {
		t.Fatalf("%+v", r)
	}
	if st := statOne(n, bare.Hash); st.Status != StatusOK || st.PlainKey != nil {
		t.Errorf("%+v", st)
	}
}

// TestPlainKeyHeaderPages: a key may take a header to one page more, whatever
// the number of chunks; the header's size is what the index says.
func TestPlainKeyHeaderPages(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.MaxBlockBytes, o.SegmentBytes, o.CapacityBytes, o.MaxInflightBytes = 36*mib, 80*mib, 800*mib, 160*mib
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n, err := s.Namespace(context.Background(), oneLayout(), "tenant", NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	pages := map[uint16]int{}
	p := make([]byte, 27*mib)
	for i, chunks := range []int{1, 420, 430} {
		b := keyed(3*i, PutBlock{Planes: []PlaneData{{Spans: [][]byte{p[:chunks*ChunkBytes]}}}})
		p[0] = byte(i)
		mustPut(t, n, b)
		e := entryOfKey(t, s, index.Key{Namespace: n.info.Number, Hash: string(b.Hash)})
		header := disk.HeaderPages(&disk.Extent{
			Kind: disk.KindFull, Hash: b.Hash, PlainKey: b.PlainKey,
			Planes: []disk.Plane{{Name: "value", RawBytes: int64(chunks * ChunkBytes)}},
		})
		if int(e.HeaderPages) != header {
			t.Errorf("%d chunks: %d header pages, want %d", chunks, e.HeaderPages, header)
		}
		pages[e.HeaderPages]++
		st := statOne(n, b.Hash)
		if st.Status != StatusOK || !bytes.Equal(st.PlainKey, b.PlainKey) {
			t.Errorf("%d chunks: %v %v", chunks, st.Status, st.Err)
		}
		v := viewOne(n, b.Hash)
		if v.Status != StatusOK || !bytes.Equal(v.Planes[0], p[:chunks*ChunkBytes]) {
			t.Errorf("%d chunks: view %v %v", chunks, v.Status, v.Err)
		}
		v.Release()
	}
	if pages[1] != 2 || pages[2] != 1 {
		t.Errorf("header pages: %v: the border was not crossed", pages)
	}
}

// TestFaultPlainKeySurvives: plain keys and parents are what they were after
// moves of any kind, a kill, a power cut and a rebuild.
func TestFaultPlainKeySurvives(t *testing.T) {
	parent := hashOf(1000)
	for _, c := range []struct {
		name string
		put  func(t *testing.T, s *Store, n *Namespace) (ids []int)
	}{
		{"stored", func(t *testing.T, s *Store, n *Namespace) []int {
			for id := range 6 {
				b := keyed(id, blockOf(id, 0, 5000))
				b.Parent = parent
				mustPut(t, n, b)
			}
			mustFlush(t, s)
			return []int{0, 1, 2, 3, 4, 5}
		}},
		{"aliases", func(t *testing.T, s *Store, n *Namespace) []int { return putAliases(t, s, n, parent) }},
		{"moved", func(t *testing.T, s *Store, n *Namespace) []int {
			ids := putApart(t, s, n, parent)
			touchAll(t, n, ids)
			evictMoves(t, s)
			return ids
		}},
		{"owner dropped and moved", func(t *testing.T, s *Store, n *Namespace) []int {
			ids := putApart(t, s, n, parent)
			dropKeyed(t, n, ids[0])
			mustFlush(t, s)
			touchAll(t, n, ids[1:])
			evictMoves(t, s)
			return ids[1:]
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			o := testOptions(mem)
			s := mustOpen(t, o)
			n := mustSpace(t, s)
			ids := c.put(t, s, n)
			mustFlush(t, s)
			afterlives(t, s, mem, o, func(t *testing.T, s *Store, n *Namespace) {
				for _, id := range ids {
					wantKeyed(t, n, id, parent)
				}
			})
		})
	}
}

// putAliases puts one block under three plain keys.
func putAliases(t *testing.T, s *Store, n *Namespace, parent []byte) []int {
	t.Helper()
	for id := range 4 {
		b := keyed(id, blockOf(0, 0, 20000))
		b.Parent = parent
		if r := mustPut(t, n, b); r.Shared != (id > 0) {
			t.Fatalf("block %d: %+v", id, r)
		}
		mustFlush(t, s)
	}
	return []int{0, 1, 2, 3}
}

// putApart is putAliases with the bytes in a segment of their own, which the
// next eviction takes.
func putApart(t *testing.T, s *Store, n *Namespace, parent []byte) (ids []int) {
	t.Helper()
	for id := range 3 {
		b := keyed(id, blockOf(0, 0, 20000))
		b.Parent = parent
		mustPut(t, n, b)
		if id == 0 {
			fillSegment(t, s, n, 2000)
		}
		mustFlush(t, s)
		ids = append(ids, id)
	}
	return ids
}

// evictMoves runs one pass of eviction that moves something on.
func evictMoves(t *testing.T, s *Store) {
	t.Helper()
	mustEvict(t, s)
	if s.Stats().MovedBlocks == 0 {
		t.Fatal("the eviction moved nothing")
	}
}

func touchAll(t *testing.T, n *Namespace, ids []int) {
	t.Helper()
	var hashes [][]byte
	for _, id := range ids {
		hashes = append(hashes, KeyHash(plainKey(id)))
	}
	for i, st := range n.Touch(context.Background(), hashes) {
		if st != StatusOK {
			t.Fatalf("touch %d: %v", ids[i], st)
		}
	}
}

func dropKeyed(t *testing.T, n *Namespace, id int) {
	t.Helper()
	if r := n.Drop(context.Background(), [][]byte{KeyHash(plainKey(id))})[0]; r.Status != StatusOK {
		t.Fatalf("drop %d: %v %v", id, r.Status, r.Err)
	}
}

// TestPlainKeyCompacted: an offline compaction keeps the keys, of alias pages
// too.
func TestPlainKeyCompacted(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	n := mustSpace(t, s)
	ids := putAliases(t, s, n, nil)
	for id := 10; id < 60; id++ {
		mustPut(t, n, keyed(id, blockOf(id, 0, 8000)))
	}
	mustFlush(t, s)
	for id := 10; id < 60; id++ {
		if id%10 != 0 {
			dropKeyed(t, n, id)
		} else {
			ids = append(ids, id)
		}
	}
	dropKeyed(t, n, ids[0])
	mustClose(t, s)
	if r := mustCompact(t, mem, CompactOptions{}); r.BytesCopied == 0 {
		t.Fatalf("nothing moved: %+v", r)
	}
	for _, rebuilt := range []bool{false, true} {
		if rebuilt {
			loseIndex(t, mem)
		}
		s = mustOpen(t, testOptions(mem))
		n = mustSpace(t, s)
		for _, id := range ids[1:] {
			wantKeyed(t, n, id, nil)
		}
		mustClose(t, s)
	}
}

// TestPlainKeyShown: inspect shows the key of a full extent and of an alias's.
func TestPlainKeyShown(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	n := mustSpace(t, s)
	ids := putAliases(t, s, n, nil)
	mustClose(t, s)
	i, err := inspect("mem", testOptions(mem).private)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = i.Close() }()
	for _, id := range ids {
		b, err := i.Block(context.Background(), n.info.Number, KeyHash(plainKey(id)))
		if err != nil {
			t.Fatal(err)
		}
		own := b.Extent
		if b.Alias {
			own = b.Own
		}
		if own.PlainKey != fmt.Sprintf("%x", plainKey(id)) || b.Alias != (id > 0) {
			t.Errorf("block %d, alias %v: plain key %q", id, b.Alias, own.PlainKey)
		}
	}
}
