package engine

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// crashModel is what a store must hold, kept beside it by a driver that does
// one operation at a time. At any instant, also in the middle of a call, it
// tells for each key which contents may be found.
type crashModel struct {
	mu   sync.Mutex
	keys map[int]*modelKey
}

// modelKey is the knowledge of one key.
type modelKey struct {
	set     bool // acknowledged and not dropped since
	content int
	durable bool // acknowledged as surviving a power cut
	mayMiss bool // evicted, or quarantined with another key's bytes: absence is allowed
	// dropTried: a drop or quarantine of this put ended without an answer; it
	// may take effect at any later crash (its tombstone is there), or never.
	dropTried bool
	gone      bool // known to be evicted: it must not come back
	// undone holds what was evicted since, its file perhaps not unlinked yet:
	// when the log is lost, and with it the eviction, it may come back until a
	// later put is durable.
	undone map[int]bool
	// An operation under way.
	putting  int // content, or -1
	dropping bool
	bumping  bool
	// orphans are contents of puts that ended without an answer: they may turn
	// up until a later put or drop of the key is acknowledged.
	orphans map[int]bool
}

func newModel(keys int) *crashModel {
	m := &crashModel{keys: map[int]*modelKey{}}
	for k := range keys {
		m.keys[k] = &modelKey{putting: -1, orphans: map[int]bool{}}
	}
	return m
}

func (m *crashModel) with(k int, fn func(*modelKey)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	fn(m.keys[k])
}

func (m *crashModel) all(fn func(*modelKey)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.keys {
		fn(k)
	}
}

// snapshot is what may be found if the store crashes now.
func (m *crashModel) snapshot(o vfs.CrashOptions) *crashModel {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.snapshotLocked(o)
}

func (m *crashModel) snapshotLocked(o vfs.CrashOptions) *crashModel {
	c := &crashModel{keys: map[int]*modelKey{}}
	for i, k := range m.keys {
		n := &modelKey{putting: -1, orphans: map[int]bool{}}
		for o := range k.orphans {
			n.orphans[o] = true
		}
		n.set, n.content, n.gone, n.undone = k.set, k.content, k.gone, k.undone
		n.dropTried = k.dropTried || k.dropping
		n.mayMiss = k.mayMiss || n.dropTried || k.bumping || !o.KeepAll && !k.durable
		// The end of the process makes nothing durable; a clone does, but for
		// KeepUnsynced.
		n.durable = k.durable || o.KeepAll && !o.KeepUnsynced && k.set
		if k.putting >= 0 && (!k.set || k.mayMiss) {
			n.orphans[k.putting] = true
			n.gone = k.gone && k.putting != k.content
		}
		c.keys[i] = n
	}
	return c
}

// check compares a store with the model and takes over what it finds: after
// an Open, what is visible is a fact.
func (m *crashModel) check(t *testing.T, s *Store, n *Namespace, lostLog bool, where string) {
	t.Helper()
	for i, k := range m.keys {
		got, status := readContent(n, i)
		if status != StatusOK && status != StatusMiss {
			t.Fatalf("%s: key %d: status %v: nothing rots here", where, i, status)
		}
		if has := n.Has(context.Background(), [][]byte{hashOf(i)})[0]; has != status {
			t.Fatalf("%s: key %d: Has says %v, Get %v", where, i, has, status)
		}
		m.found(t, k, got, status, lostLog, fmt.Sprintf("%s: key %d", where, i))
	}
	checkIndex(t, s, where)
}

// found judges what was read of a key. A crash may come meanwhile, from the
// index' background work, and takes a snapshot.
func (m *crashModel) found(t *testing.T, k *modelKey, got int, status Status, lostLog bool, where string) {
	t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case status == StatusMiss:
		if k.set && !k.mayMiss {
			t.Fatalf("%s: content %d was acknowledged and is missing", where, k.content)
		}
		k.set, k.orphans = false, map[int]bool{}
	case k.set && got == k.content:
		if k.gone && !lostLog {
			t.Fatalf("%s: evicted content %d returned", where, got)
		}
	case (!k.set || k.mayMiss) && k.orphans[got], lostLog && (!k.set || k.mayMiss) && k.undone[got]:
		k.set, k.content = true, got
	default:
		t.Fatalf("%s: found content %d; acknowledged: %v (content %d), orphans %v", where, got, k.set, k.content, k.orphans)
	}
	k.orphans, k.undone = map[int]bool{}, nil
	k.durable, k.mayMiss, k.gone, k.dropping, k.bumping, k.putting = k.set, false, false, false, false, -1
	k.dropTried = k.dropTried && k.set
}

const modelBlockBytes = 9000

// modelBytes are the contents, which compress.
var modelBytes = sync.OnceValue(func() (all [64][]byte) {
	for c := range all {
		all[c] = make([]byte, modelBlockBytes)
		for i, b := range contentOf(1000+c, 0, modelBlockBytes) {
			if i%64 < 16 {
				all[c][i] = b
			}
		}
	}
	return all
})

// readContent reads a key and tells which of the model's contents it is.
func readContent(n *Namespace, k int) (int, Status) {
	p := make([]byte, modelBlockBytes)
	cut := modelBlockBytes / 3
	r := n.Get(context.Background(), []GetBlock{{Hash: hashOf(k), Parts: []Part{
		{Plane: "k", Spans: [][]byte{p[:cut]}}, {Plane: "v", Spans: [][]byte{p[cut:]}},
	}}}, GetOptions{})[0]
	if r.Status != StatusOK {
		return -1, r.Status
	}
	for c, want := range modelBytes() {
		if bytes.Equal(p, want) {
			return c, StatusOK
		}
	}
	return -2, StatusOK
}

func modelBlock(k, content int) PutBlock {
	p, cut := modelBytes()[content], modelBlockBytes/3
	return PutBlock{Hash: hashOf(k), Planes: []PlaneData{
		{Name: "v", Spans: [][]byte{p[cut : cut+1], p[cut+1:]}},
		{Name: "k", Spans: [][]byte{p[:cut]}},
	}}
}

// checkIndex recomputes what the index keeps as totals, and that each entry
// leads to an extent that verifies.
func checkIndex(t *testing.T, s *Store, where string) {
	t.Helper()
	live := map[uint64]int64{}
	seen := map[disk.Address]bool{}
	err := s.idx.Keys(context.Background(), func(k index.KeyEntry) error {
		if !seen[k.Address] {
			seen[k.Address] = true
			live[k.Address.Segment] += k.Bytes()
		}
		return s.vol.VerifyExtent(context.Background(), k.Address, k.HeaderSum)
	})
	if err != nil {
		t.Fatalf("%s: index: %v", where, err)
	}
	have, err := s.idx.Live(context.Background())
	if err != nil {
		t.Fatalf("%s: live bytes: %v", where, err)
	}
	if fmt.Sprint(have) != fmt.Sprint(live) {
		t.Fatalf("%s: live bytes %v, recomputed %v", where, have, live)
	}
}
