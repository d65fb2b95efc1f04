package index

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// hangTimeout only catches hangs.
const hangTimeout = 2 * time.Minute

var testUUID = [16]byte{7, 7, 7}

func testOptions(fs vfs.FS) Options {
	return Options{FS: fs, Dir: "index", UUID: testUUID, CacheBytes: 1 << 20, MemTableBytes: 64 << 10}
}

func testContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hangTimeout)
	t.Cleanup(cancel)
	return ctx
}

// mustCreate makes an empty, complete index.
func mustCreate(t testing.TB, fs vfs.FS) *DB {
	t.Helper()
	d, err := Create(testContext(t), testOptions(fs))
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	if err := d.MarkComplete(testContext(t)); err != nil {
		t.Fatalf("mark complete: %v", err)
	}
	return d
}

func mustOpen(t testing.TB, fs vfs.FS) *DB {
	t.Helper()
	d, err := Open(testContext(t), testOptions(fs))
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return d
}

func mustClose(t testing.TB, d *DB) {
	t.Helper()
	if err := d.Close(testContext(t)); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func mustUpdate(t testing.TB, d *DB, live map[uint64]int64, fn func(b *Batch) error) {
	t.Helper()
	if err := d.Update(testContext(t), live, fn); err != nil {
		t.Fatalf("update: %v", err)
	}
}

func keyOf(id int) Key {
	h := sha256.Sum256([]byte(fmt.Sprintf("key %d", id)))
	return Key{Namespace: uint32(1 + id%3), Hash: string(h[:16+id%17])}
}

func contentOf(id int) (t ContentTag) {
	binary.LittleEndian.PutUint64(t[:], uint64(id)*0x9e3779b97f4a7c15+1)
	return t
}

func extentAt(segment uint64, page uint32, pages uint32) Extent {
	return Extent{
		Address: disk.Address{Segment: segment, Page: page}, HeaderPages: 1, Pages: pages,
		HeaderSum: segment*1000003 + uint64(page),
	}
}

// entryAt is an entry with bytes of its own.
func entryAt(segment uint64, page uint32, content int, seq uint64) Entry {
	return Entry{
		Extent: extentAt(segment, page, 3), Content: contentOf(content),
		Seq: seq, Depth: uint32(seq % 5), RawBytes: 8000 + int64(content),
	}
}

// aliasTo is an entry that shares the bytes of e.
func aliasTo(e Entry, segment uint64, page uint32, seq uint64) Entry {
	e.Own, e.Seq = extentAt(segment, page, 1), seq
	return e
}

// lookup gets one key.
func lookup(t testing.TB, d *DB, k Key) (Entry, bool) {
	t.Helper()
	found, err := d.Get(testContext(t), []Key{k}, false)
	if err != nil {
		t.Fatalf("get: %v", err)
	}
	return found[0].Entry, found[0].OK
}
