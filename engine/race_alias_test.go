package engine

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// rotFS flips bytes of one place in what is read, while it is on.
type rotFS struct {
	vfs.FS
	place atomic.Pointer[rotPlace]
}

type rotPlace struct {
	file     string
	from, to int64
}

func newRotFS(under vfs.FS) *rotFS {
	r := &rotFS{}
	r.FS = vfs.WithReadFilter(under, func(name string, off int64, p []byte) {
		at := r.place.Load()
		if at == nil || !strings.HasSuffix(name, at.file) {
			return
		}
		for i := max(at.from, off); i < min(at.to, off+int64(len(p))); i++ {
			p[i-off] ^= 0x40
		}
	})
	return r
}

// rot makes a byte of the block's payload bad, wherever it is stored now.
func (r *rotFS) rot(t testing.TB, s *Store, n *Namespace, id int) index.Entry {
	t.Helper()
	e := entryOf(t, s, n, id)
	from := e.Address.Offset() + int64(e.HeaderPages)*4096 + 5
	r.place.Store(&rotPlace{file: disk.SegmentName(e.Address.Segment), from: from, to: from + 1})
	return e
}

func entryOf(t testing.TB, s *Store, n *Namespace, id int) index.Entry {
	t.Helper()
	found, err := s.lookup(context.Background(), []index.Key{{Namespace: n.info.Number, Hash: string(hashOf(id))}}, false)
	if err != nil || !found[0].ok {
		t.Fatalf("lookup %d: %+v %v", id, found, err)
	}
	return found[0].entry
}

// aliased is a store in which block 1 shares the bytes of block 0, the two in
// different segments when apart is set. Content is that of block 0.
func aliased(t *testing.T, o Options, apart bool) (*Store, *Namespace) {
	t.Helper()
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, raceSize))
	if apart {
		fillSegment(t, s, n, 10)
	}
	mustFlush(t, s)
	if r := mustPut(t, n, twinOf(1)); !r.Shared {
		t.Fatalf("not shared: %+v", r)
	}
	mustFlush(t, s)
	return s, n
}

// twinOf is block 0 under another key.
func twinOf(id int) PutBlock {
	b := blockOf(0, 0, raceSize)
	b.Hash = hashOf(id)
	return b
}

// wantTwin gets a twin of block 0.
func wantTwin(t testing.TB, n *Namespace, id int) {
	t.Helper()
	p, r := getBlock(t, n, id, raceSize)
	if r.Status != StatusOK || variantOf(0, p, 1) != 0 {
		t.Fatalf("get %d: %v %v", id, r.Status, r.Err)
	}
}

// TestAliasOutlivesTarget: what becomes of a block whose bytes belong to
// another one, when that one goes.
func TestAliasOutlivesTarget(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, s *Store, n *Namespace, rot *rotFS)
		live [2]bool // is the first, the second block there afterwards?
	}{
		{"nothing", func(*testing.T, *Store, *Namespace, *rotFS) {}, [2]bool{true, true}},
		{"first dropped", func(t *testing.T, _ *Store, n *Namespace, _ *rotFS) { mustDrop(t, n, 0) }, [2]bool{false, true}},
		{"alias dropped", func(t *testing.T, _ *Store, n *Namespace, _ *rotFS) { mustDrop(t, n, 1) }, [2]bool{true, false}},
		{"both dropped", func(t *testing.T, _ *Store, n *Namespace, _ *rotFS) { mustDrop(t, n, 0); mustDrop(t, n, 1) }, [2]bool{}},
		{"found bad", func(t *testing.T, s *Store, n *Namespace, rot *rotFS) {
			rot.rot(t, s, n, 0)
			wantStatus(t, n, 0, raceSize, StatusCorrupt)
			rot.place.Store(nil) // good again: quarantined all the same
		}, [2]bool{}},
		{"found bad through the alias", func(t *testing.T, s *Store, n *Namespace, rot *rotFS) {
			rot.rot(t, s, n, 1)
			wantStatus(t, n, 1, raceSize, StatusCorrupt)
			rot.place.Store(nil)
		}, [2]bool{}},
		{"evicted unused", func(t *testing.T, s *Store, _ *Namespace, _ *rotFS) { s.used = usedBlocks{}; mustEvict(t, s) }, [2]bool{}},
		{"moved", func(t *testing.T, s *Store, n *Namespace, _ *rotFS) {
			wantTwin(t, n, 1)
			mustEvict(t, s)
		}, [2]bool{true, true}},
		{"dropped and moved", func(t *testing.T, s *Store, n *Namespace, _ *rotFS) {
			wantTwin(t, n, 1)
			mustDrop(t, n, 0)
			mustFlush(t, s)
			mustEvict(t, s)
		}, [2]bool{false, true}},
		{"moved and dropped", func(t *testing.T, s *Store, n *Namespace, _ *rotFS) {
			wantTwin(t, n, 0)
			mustEvict(t, s)
			mustDrop(t, n, 0)
		}, [2]bool{false, true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			checkLeaks(t)
			mem := vfs.NewMem()
			rot := newRotFS(mem)
			o := testOptions(rot)
			s, n := aliased(t, o, true)
			c.do(t, s, n, rot)
			mustFlush(t, s)
			afterlives(t, s, mem, o, func(t *testing.T, _ *Store, n *Namespace) {
				for id, live := range c.live {
					if live {
						wantTwin(t, n, id)
					} else {
						wantStatus(t, n, id, raceSize, StatusMiss)
					}
				}
			})
		})
	}
}

// TestTargetGoesDuringPut: the bytes that a put means to share go away at
// each point of it. Either the put is refused, or its block is whole.
func TestTargetGoesDuringPut(t *testing.T) {
	for _, at := range []string{"put:before-write", "put:before-log"} {
		for _, c := range []struct {
			name string
			do   func(t *testing.T, s *Store, n *Namespace, rot *rotFS)
			want Status
		}{
			{"dropped", func(t *testing.T, s *Store, n *Namespace, _ *rotFS) { mustDrop(t, n, 0); mustFlush(t, s) }, StatusOK},
			{"found bad", func(t *testing.T, s *Store, n *Namespace, rot *rotFS) {
				rot.rot(t, s, n, 0)
				wantStatus(t, n, 0, raceSize, StatusCorrupt)
			}, StatusShed},
			{"found bad, applied", func(t *testing.T, s *Store, n *Namespace, rot *rotFS) {
				rot.rot(t, s, n, 0)
				wantStatus(t, n, 0, raceSize, StatusCorrupt)
				mustFlush(t, s)
			}, StatusShed},
		} {
			t.Run(c.name+" at "+at, func(t *testing.T) {
				checkLeaks(t)
				mem, points := vfs.NewMem(), &rendezvous{}
				rot := newRotFS(mem)
				o := testOptions(rot)
				o.private.points = points.at
				s := mustOpen(t, o)
				n := mustSpace(t, s)
				mustPut(t, n, blockOf(0, 0, raceSize))
				mustFlush(t, s)
				held := points.arm(t, at)
				put := start(t, "the put", func() PutResult { return putOne(n, twinOf(1)) })
				held.wait(t)
				c.do(t, s, n, rot)
				held.open()
				if r := put(); r.Status != c.want {
					t.Fatalf("put: %v %v, want %v", r.Status, r.Err, c.want)
				}
				mustFlush(t, s)
				afterlives(t, s, mem, o, func(t *testing.T, _ *Store, n *Namespace) {
					wantStatus(t, n, 0, raceSize, StatusMiss)
					if c.want == StatusOK {
						wantTwin(t, n, 1)
					} else {
						wantStatus(t, n, 1, raceSize, StatusMiss)
					}
				})
			})
		}
	}
}

// TestEvictWaitsForSharer: the segment whose bytes a put shares stays until
// the put's record is logged; then both are moved on, or go, together.
func TestEvictWaitsForSharer(t *testing.T) {
	for _, at := range []string{"put:before-write", "put:before-log"} {
		t.Run(at, func(t *testing.T) {
			checkLeaks(t)
			mem, points := vfs.NewMem(), &rendezvous{}
			o := liveOptions(mem)
			o.private.points = points.at
			s, n := evictable(t, o)
			held := points.arm(t, at)
			put := start(t, "the put", func() PutResult { return putOne(n, twinOf(1000)) })
			held.wait(t)
			evicted := start(t, "the eviction", func() error { _, err := s.EvictOnce(context.Background()); return err })
			eventually(t, "the eviction has begun", func() bool {
				s.mu.Lock()
				defer s.mu.Unlock()
				return oldestSegment(s).victim
			})
			held.open()
			if r := put(); r.Status != StatusOK || !r.Shared {
				t.Fatalf("put: %+v", r)
			}
			if err := evicted(); err != nil {
				t.Fatal(err)
			}
			mustFlush(t, s)
			afterlives(t, s, mem, o, func(t *testing.T, _ *Store, n *Namespace) {
				wantBlock(t, n, 0, 0, raceSize)
				wantTwin(t, n, 1000)
			})
		})
	}
}

// TestLateFailureAfterReput: a get finds the old bytes of a block bad after
// it was dropped and put again. The report must not hit the new block.
func TestLateFailureAfterReput(t *testing.T) {
	for _, c := range []struct {
		name    string
		variant int
	}{{"equal bytes", 0}, {"other bytes", 3}} {
		t.Run(c.name, func(t *testing.T) {
			checkLeaks(t)
			mem, points := vfs.NewMem(), &rendezvous{}
			rot := newRotFS(mem)
			o := testOptions(rot)
			o.private.points = points.at
			s := mustOpen(t, o)
			n := mustSpace(t, s)
			mustPut(t, n, blockOf(0, 0, raceSize))
			mustFlush(t, s)
			held := points.arm(t, "read:acquired")
			p, b := getParts(0, raceSize)
			got := start(t, "the get", func() GetResult { return n.Get(context.Background(), []GetBlock{b}, GetOptions{})[0] })
			held.wait(t)
			old := rot.rot(t, s, n, 0)
			mustDrop(t, n, 0)
			mustFlush(t, s)
			mustPut(t, n, blockOf(0, c.variant, raceSize))
			if now := entryOf(t, s, n, 0); now.Address == old.Address {
				t.Fatal("the new block lies where the old one was")
			}
			held.open()
			if r := got(); r.Status != StatusCorrupt || !untouched(p) {
				t.Fatalf("get: %v %v", r.Status, r.Err)
			}
			mustFlush(t, s)
			afterlives(t, s, mem, o, func(t *testing.T, _ *Store, n *Namespace) {
				wantBlock(t, n, 0, c.variant, raceSize)
			})
		})
	}
}
