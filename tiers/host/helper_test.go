package host

import (
	"encoding/binary"
	"testing"

	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/internal/sums"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fillPlanes writes bytes that say which block they are of.
func fillPlanes(b *Block, key, seq uint64) {
	var all []uint64
	var lens []int64
	for i, p := range b.Planes() {
		for at := 0; at < len(p); at += 8 {
			var word [8]byte
			binary.LittleEndian.PutUint64(word[:], key<<40^seq<<20^uint64(i)<<16^uint64(at))
			copy(p[at:], word[:])
		}
		all = sums.Chunks(all, p)
		lens = append(lens, int64(len(p)))
	}
	b.SetSums(all, sums.Content(lens, all))
}

func keyOf(id uint64) Key {
	hash := binary.LittleEndian.AppendUint64(make([]byte, 8), id)
	return Key{Space: uint32(id % 3), Hash: string(hash)}
}

func versionOf(b *Block, seq uint64) Version {
	return Version{Seq: seq, Content: [8]byte(b.content[:8])}
}

// add puts a block into the cache and says under which version.
func add(c *Cache, id, seq uint64, planeBytes ...int64) (Version, error) {
	b, err := c.New(planeBytes)
	if err != nil {
		return Version{}, err
	}
	defer b.Release()
	fillPlanes(b, id, seq)
	v := versionOf(b, seq)
	c.Insert(keyOf(id), v, b)
	return v, nil
}

func mustAdd(t *testing.T, c *Cache, id, seq uint64, planeBytes ...int64) Version {
	t.Helper()
	v, err := add(c, id, seq, planeBytes...)
	if err != nil {
		t.Fatalf("block %d of %v bytes: %v", id, planeBytes, err)
	}
	return v
}

// mustHold is the block of a key, verified.
func mustHold(t *testing.T, c *Cache, id uint64, v Version) *Block {
	t.Helper()
	b := c.Get(keyOf(id), v)
	if b == nil {
		t.Fatalf("block %d is not in the cache", id)
	}
	if err := b.Verify(); err != nil {
		t.Fatalf("block %d: %v", id, err)
	}
	return b
}

// checkBound holds what the cache and its pool say against the capacity.
func checkBound(t interface{ Fatalf(string, ...any) }, c *Cache) {
	s := c.Stats()
	inUse, cached, limit := c.pool.Stats()
	if s.Bytes > s.CapacityBytes || inUse+cached+s.Bytes-c.poolHeld() > s.CapacityBytes || inUse+cached > limit {
		t.Fatalf("%d bytes counted, %d in use and %d cached by the pool (limit %d): the bound is %d", s.Bytes, inUse, cached, limit, s.CapacityBytes)
	}
}

// poolHeld is the part of Bytes that is the pool's.
func (c *Cache) poolHeld() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.poolBytes
}
