package s3fifo

import (
	"testing"

	"pgregory.net/rapid"
)

func never(uint64) bool { return false }

// cache is a policy with the table and the loop that its owner has.
type cache struct {
	p     *Policy[uint64]
	bytes int64
	nodes map[uint64]*Node[uint64]
}

func newCache(capacityBytes int64) *cache {
	return &cache{New[uint64](capacityBytes), capacityBytes, map[uint64]*Node[uint64]{}}
}

func (c *cache) access(id uint64, sizeBytes int64) (hit bool) {
	if n := c.nodes[id]; n != nil {
		c.p.Use(n)
		return true
	}
	for c.p.Bytes()+sizeBytes > c.bytes {
		delete(c.nodes, c.p.Evict(never).Value)
	}
	n := &Node[uint64]{Value: id, ID: id, SizeBytes: sizeBytes}
	c.nodes[id] = n
	c.p.Add(n)
	return false
}

func TestUnusedGoFirstInOrder(t *testing.T) {
	c := newCache(100)
	for id := range uint64(10) {
		c.access(id, 10)
	}
	c.access(0, 10)
	c.access(3, 10)
	var gone []uint64
	for range 10 {
		n := c.p.Evict(never)
		gone = append(gone, n.Value)
	}
	// The small queue gives up what nobody used, down to its share, and then
	// the main one what is left of it.
	want := []uint64{1, 2, 4, 5, 6, 7, 0, 3, 8, 9}
	for i := range want {
		if gone[i] != want[i] {
			t.Fatalf("gone in the order %v, expected %v", gone, want)
		}
	}
	if n := c.p.Evict(never); n != nil || c.p.Len() != 0 || c.p.Bytes() != 0 {
		t.Errorf("an empty policy gives %v; %d items of %d bytes", n, c.p.Len(), c.p.Bytes())
	}
}

func TestComesBackIntoMain(t *testing.T) {
	c := newCache(100)
	for id := range uint64(12) {
		c.access(id, 10)
	}
	if c.nodes[0] != nil {
		t.Fatal("the first is not gone")
	}
	if c.access(0, 10); c.nodes[0].in != &c.p.main {
		t.Error("what comes back soon enters the small queue again")
	}
	if c.p.OverheadBytes() == 0 {
		t.Error("remembering costs nothing")
	}
	if c.access(100, 10); c.nodes[100].in != &c.p.small {
		t.Error("a new item enters the main queue")
	}
}

func TestHeldStay(t *testing.T) {
	c := newCache(100)
	for id := range uint64(10) {
		c.access(id, 10)
	}
	if n := c.p.Evict(func(uint64) bool { return true }); n != nil {
		t.Errorf("%d was given up while held", n.Value)
	}
	for range 9 {
		if n := c.p.Evict(func(id uint64) bool { return id == 4 }); n == nil || n.Value == 4 {
			t.Fatalf("given up: %v", n)
		}
	}
	if n := c.p.Evict(never); n == nil || n.Value != 4 {
		t.Errorf("the one left: %v", n)
	}
}

func TestScanPassesBy(t *testing.T) {
	c := newCache(1000)
	for range 3 {
		for id := range uint64(60) {
			c.access(id, 10)
		}
	}
	for id := uint64(1000); id < 21000; id++ {
		c.access(id, 10)
	}
	hits := 0
	for id := range uint64(60) {
		if c.access(id, 10) {
			hits++
		}
	}
	if hits < 55 {
		t.Errorf("%d of 60 items in use are left after a scan of 20 times the cache", hits)
	}
}

// TestProperty: the policy holds exactly what was added and neither removed
// nor given up, by item and by byte; what it remembers is bounded.
func TestProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const capacity = 1000
		p := New[uint64](capacity)
		in := map[uint64]*Node[uint64]{}
		bytes := int64(0)
		id := rapid.Uint64Range(0, 60)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				k := id.Draw(t, "id")
				if in[k] != nil {
					return
				}
				n := &Node[uint64]{Value: k, ID: k, SizeBytes: rapid.Int64Range(1, 100).Draw(t, "size")}
				p.Add(n)
				in[k], bytes = n, bytes+n.SizeBytes
			},
			"use": func(t *rapid.T) {
				if n := in[id.Draw(t, "id")]; n != nil {
					p.Use(n)
				}
			},
			"remove": func(t *rapid.T) {
				k := id.Draw(t, "id")
				if n := in[k]; n != nil {
					p.Remove(n)
					p.Remove(n) // a second time is nothing
					delete(in, k)
					bytes -= n.SizeBytes
				}
			},
			"evict": func(t *rapid.T) {
				n := p.Evict(never)
				if (n == nil) != (len(in) == 0) {
					t.Fatalf("given up: %v, with %d items in", n, len(in))
				}
				if n == nil {
					return
				}
				if in[n.Value] != n {
					t.Fatalf("%d was given up and is not in", n.Value)
				}
				delete(in, n.Value)
				bytes -= n.SizeBytes
			},
			"": func(t *rapid.T) {
				if p.Len() != len(in) || p.Bytes() != bytes {
					t.Fatalf("%d items of %d bytes, expected %d of %d", p.Len(), p.Bytes(), len(in), bytes)
				}
				if g := p.ghosts; g.bytes > g.bytesMax || g.bytes < 0 || len(g.at) != len(g.ring) {
					t.Fatalf("ghosts: %d of %d bytes, %d and %d entries", g.bytes, g.bytesMax, len(g.at), len(g.ring))
				}
			},
		})
	})
}
