package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
)

// TestHostServes: after a put everything is served from memory, whole, by
// plane, by range and as a view, and the disk is not read.
func TestHostServes(t *testing.T) {
	for _, mode := range []Compression{CompressionOff, CompressionS2} {
		t.Run(mode.String(), func(t *testing.T) {
			squeezed(t, mode)
			s := mustOpen(t, hostOptions(vfs.NewMem()))
			defer mustClose(t, s)
			n := mustSpace(t, s)
			sizes := []int{3, 5000, 70_000, 200_001}
			for id, size := range sizes {
				mustPut(t, n, blockOf(id, 0, size))
			}
			hits, misses, fetches := hostDelta(s, func() {
				for id, size := range sizes {
					wantBlock(t, n, id, 0, size)
					wantView(t, n, id, 0, size)
					wantHostRanges(t, n, id, size)
				}
			})
			if hits != int64(3*len(sizes)) || misses != 0 || fetches != 0 {
				t.Errorf("%d hits, %d misses, %d reads of the disk", hits, misses, fetches)
			}
			h := s.Stats().Host
			if h.LentBytes != 0 || h.ServedBytes == 0 || h.VerifiedBytes < h.ServedBytes || h.Bytes > h.CapacityBytes || h.Blocks != int64(len(sizes)) {
				t.Errorf("stats %+v", h)
			}
		})
	}
}

// wantHostRanges reads a piece of the second plane and all of the first.
func wantHostRanges(t testing.TB, n *Namespace, id, size int) {
	t.Helper()
	p := contentOf(id, 0, size)
	cut := size / 3
	off, length := (size-cut)/4, (size-cut)/2+1
	k, v := make([]byte, cut), make([]byte, length)
	r := n.Get(context.Background(), []GetBlock{{Hash: hashOf(id), Parts: []Part{
		{Plane: "v", OffsetBytes: int64(off), LengthBytes: int64(length), Spans: [][]byte{v[:1], v[1:]}},
		{Plane: "k", Spans: [][]byte{k}},
	}}}, GetOptions{WantSeal: true})[0]
	if r.Status != StatusOK || !bytes.Equal(k, p[:cut]) || !bytes.Equal(v, p[cut+off:][:length]) {
		t.Fatalf("ranges of %d: %v %v, or WRONG BYTES", id, r.Status, r.Err)
	}
	if r.Bytes != int64(cut+length) || r.VerifiedBytes < r.Bytes {
		t.Fatalf("ranges of %d: %d bytes, %d verified", id, r.Bytes, r.VerifiedBytes)
	}
	if want := SealOf(p[:cut], p[cut:]); r.Seal == nil || r.Seal.ContentID != want.ContentID || len(r.Seal.ChunkSums) != len(want.ChunkSums) {
		t.Fatalf("ranges of %d: seal %v", id, r.Seal)
	}
}

// TestHostSameAnswers: what does not fit the block is answered from memory as
// from disk.
func TestHostSameAnswers(t *testing.T) {
	fs := vfs.NewMem()
	o := hostOptions(fs)
	s := mustOpen(t, o)
	mustPut(t, mustSpace(t, s), blockOf(1, 0, 9000))
	requests := []Part{
		{Plane: "k", Spans: [][]byte{make([]byte, 2999)}},
		{Plane: "k", Spans: [][]byte{make([]byte, 3001)}},
		{Plane: "k", OffsetBytes: 2990, LengthBytes: 20, Spans: [][]byte{make([]byte, 20)}},
		{Plane: "v", OffsetBytes: 1 << 62, LengthBytes: 1 << 10, Spans: [][]byte{make([]byte, 1<<10)}},
		{Plane: "nope", Spans: [][]byte{make([]byte, 10)}},
		{Plane: "v", OffsetBytes: 10, Spans: [][]byte{make([]byte, 5990)}},
	}
	ask := func(s *Store) (out []GetResult) {
		for _, p := range requests {
			out = append(out, mustSpace(t, s).Get(context.Background(), []GetBlock{{Hash: hashOf(1), Parts: []Part{p}}}, GetOptions{})[0])
		}
		return out
	}
	memory := ask(s)
	mustClose(t, s)
	o.HostCacheBytes = 0
	s = mustOpen(t, o)
	defer mustClose(t, s)
	for i, want := range ask(s) {
		if got := memory[i]; got.Status != want.Status || got.Bytes != want.Bytes {
			t.Errorf("request %d: %v and %d bytes from memory (%v), %v and %d from disk (%v)", i, got.Status, got.Bytes, got.Err, want.Status, want.Bytes, want.Err)
		}
	}
}

// TestHostFills: what is read whole enters, by each way of reading; ranges do
// not, nor what scrub, export, verify, eviction and import touch.
func TestHostFills(t *testing.T) {
	for _, mode := range []Compression{CompressionOff, CompressionS2} {
		t.Run(mode.String(), func(t *testing.T) {
			squeezed(t, mode)
			fs := vfs.NewMem()
			o := hostOptions(fs)
			s := mustOpen(t, o)
			n := mustSpace(t, s)
			for id := range 8 {
				mustPut(t, n, blockOf(id, 0, 200_000))
			}
			mustClose(t, s)
			s = mustOpen(t, o)
			defer mustClose(t, s)
			n = mustSpace(t, s)
			if _, err := s.ScrubNow(context.Background(), ScrubOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Export(context.Background(), io.Discard, ExportOptions{}); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Compact(context.Background(), CompactOptions{}); err != nil {
				t.Fatal(err)
			}
			wantRangeOnly(t, n, 5, 200_000)
			if h := s.Stats().Host; h.Inserted != 0 || h.Blocks != 0 {
				t.Fatalf("before any block was read whole: %+v", h)
			}
			reads := []func(id int){
				func(id int) { wantBlock(t, n, id, 0, 200_000) },
				func(id int) { wantView(t, n, id, 0, 200_000) },
				func(id int) { wantStraight(t, s, n, id, 200_000) },
			}
			for id, read := range reads {
				_, misses, _ := hostDelta(s, func() { read(id) })
				if misses != 1 || !isInHost(t, n, id) {
					t.Errorf("way %d: %d misses, in memory after it: %v", id, misses, isInHost(t, n, id))
				}
				if hits, _, fetches := hostDelta(s, func() { read(id); wantBlock(t, n, id, 0, 200_000) }); hits != 2 || fetches != 0 {
					t.Errorf("way %d, again: %d hits, %d reads of the disk", id, hits, fetches)
				}
			}
		})
	}
}

func wantRangeOnly(t *testing.T, n *Namespace, id, size int) {
	t.Helper()
	p := make([]byte, 100)
	r := n.Get(context.Background(), []GetBlock{{Hash: hashOf(id), Parts: []Part{{Plane: "k", OffsetBytes: 7, LengthBytes: 100, Spans: [][]byte{p}}}}}, GetOptions{})[0]
	if r.Status != StatusOK || !bytes.Equal(p, contentOf(id, 0, size)[7:107]) {
		t.Fatalf("range of %d: %v %v, or WRONG BYTES", id, r.Status, r.Err)
	}
}

// wantStraight reads a block right into memory of the store.
func wantStraight(t *testing.T, s *Store, n *Namespace, id, size int) {
	t.Helper()
	cut := size / 3
	k, err := s.NewBuffer(cut)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Free()
	v, err := s.NewBuffer(size - cut)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Free()
	r := n.Get(context.Background(), []GetBlock{{Hash: hashOf(id), Parts: []Part{
		{Plane: "k", Spans: [][]byte{k.Bytes()}}, {Plane: "v", Spans: [][]byte{v.Bytes()}},
	}}}, GetOptions{WaitForDevice: true})[0]
	p := contentOf(id, 0, size)
	if r.Status != StatusOK || !bytes.Equal(k.Bytes(), p[:cut]) || !bytes.Equal(v.Bytes(), p[cut:]) {
		t.Fatalf("get %d: %v %v, or WRONG BYTES", id, r.Status, r.Err)
	}
}

// TestHostOnlyVisiblePuts: what was not stored is not in memory either.
func TestHostOnlyVisiblePuts(t *testing.T) {
	var failing atomic.Bool
	o := hostOptions(vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && failing.Load() {
			return syscall.EIO
		}
		return nil
	}))
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	bad := blockOf(1, 0, 9000)
	bad.Seal = &Seal{PlaneBytes: []int64{3000, 6000}, ChunkSums: []uint64{1, 2}}
	if r := putOne(n, bad); r.Status != StatusCorrupt {
		t.Fatalf("a wrong seal: %v", r.Status)
	}
	mustPut(t, n, blockOf(2, 0, 9000))
	mustFlush(t, s)
	failing.Store(true)
	r := n.Put(context.Background(), []PutBlock{blockOf(3, 0, 9000)}, PutOptions{Durable: true})[0]
	failing.Store(false)
	if r.Status == StatusOK {
		t.Fatal("durable without a sync")
	}
	if r := putOne(n, blockOf(4, 0, 9000)); r.Status != StatusShed {
		t.Fatalf("put to a store that is read-only: %v", r.Status)
	}
	if h := s.Stats().Host; h.Blocks != 1 || h.LentBytes != 0 {
		t.Errorf("blocks that were refused or withdrawn are in memory: %+v", h)
	}
	wantStatus(t, n, 3, 9000, StatusMiss)
	wantBlock(t, n, 2, 0, 9000)
}

// TestHostNeverOldBytes: after a drop, an epoch, a quarantine and a put of the
// same key nothing of before is served, though it was in memory.
func TestHostNeverOldBytes(t *testing.T) {
	s := mustOpen(t, hostOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	put := func(variant int) { mustPut(t, n, blockOf(1, variant, 9000)) }
	drop := func() {
		t.Helper()
		if r := n.Drop(context.Background(), [][]byte{hashOf(1)})[0]; r.Status != StatusOK {
			t.Fatalf("drop: %v %v", r.Status, r.Err)
		}
	}
	put(0)
	drop()
	wantStatus(t, n, 1, 9000, StatusMiss)
	put(1)
	wantBlock(t, n, 1, 1, 9000)
	mustFlush(t, s)
	wantBlock(t, n, 1, 1, 9000)
	drop()
	mustFlush(t, s)
	if h := s.Stats().Host; h.Blocks != 0 {
		t.Errorf("dropped and applied, and still in memory: %+v", h)
	}
	put(2)
	old := n
	n = mustBump(t, n)
	wantStatus(t, old, 1, 9000, StatusStaleEpoch)
	wantStatus(t, n, 1, 9000, StatusMiss)
	put(3)
	wantBlock(t, n, 1, 3, 9000)
	b := hostHolds(t, n, 1)
	s.quarantine(index.Key{Namespace: n.info.Number, Hash: string(hashOf(1))}, entryOf(t, s, n, 1), "for this test")
	b.Release()
	wantStatus(t, n, 1, 9000, StatusCorrupt)
	mustFlush(t, s)
	wantStatus(t, n, 1, 9000, StatusMiss)
	put(4)
	wantBlock(t, n, 1, 4, 9000)
}

// TestHostAllMiss: all-miss means all.
func TestHostAllMiss(t *testing.T) {
	s := mustOpen(t, hostOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(1, 0, 9000))
	s.health.set("test", HealthAllMiss, "for this test")
	wantStatus(t, n, 1, 9000, StatusMiss)
	if v := n.View(context.Background(), [][]byte{hashOf(1)}, ViewOptions{})[0]; v.Status != StatusMiss {
		t.Errorf("view: %v", v.Status)
	}
	s.health.clear("test")
	wantBlock(t, n, 1, 0, 9000)
}

// TestHostSurvivesMove: a move keeps what is in memory in use.
func TestHostSurvivesMove(t *testing.T) {
	s := mustOpen(t, hostOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for id := range 12 {
		mustPut(t, n, blockOf(id, 0, 200_000))
	}
	mustFlush(t, s)
	wantBlock(t, n, 0, 0, 200_000) // used: it is moved on
	before := entryOf(t, s, n, 0)
	if ok, err := s.EvictOnce(context.Background()); !ok || err != nil {
		t.Fatal(ok, err)
	}
	after := entryOf(t, s, n, 0)
	if before.Address == after.Address {
		t.Fatal("the block was not moved")
	}
	if hits, _, _ := hostDelta(s, func() { wantBlock(t, n, 0, 0, 200_000) }); hits != 1 {
		t.Error("moved on disk, and lost in memory")
	}
}

// TestHostViewOutlivesEviction: a view keeps its bytes while the cache turns
// over, and Close waits for it.
func TestHostViewOutlivesEviction(t *testing.T) {
	o := hostOptions(vfs.NewMem())
	o.HostCacheBytes = 2 * mib
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 200_000))
	v := n.View(context.Background(), [][]byte{hashOf(0)}, ViewOptions{})[0]
	if v.Status != StatusOK || s.Stats().Host.Hits != 1 || s.Stats().Host.LentBytes == 0 {
		t.Fatalf("view: %v, %+v", v.Status, s.Stats().Host)
	}
	for id := 1; id < 30; id++ {
		mustPut(t, n, blockOf(id, 0, 200_000))
	}
	if !bytes.Equal(bytes.Join(v.Planes, nil), contentOf(0, 0, 200_000)) {
		t.Error("the view's bytes changed")
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Close(ended); !errors.Is(err, ErrClosing) {
		t.Errorf("Close with a view: %v", err)
	}
	v.Release()
	v.Release()
	mustClose(t, s)
}
