package engine

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/vfs"
)

// putAll puts blocks in one batch.
func putAll(n *Namespace, ids []int, size func(id int) int) []PutResult {
	blocks := make([]PutBlock, len(ids))
	for i, id := range ids {
		blocks[i] = blockOf(id, 0, size(id))
	}
	return n.Put(context.Background(), blocks, PutOptions{})
}

func idsFrom(first, n int) []int {
	ids := make([]int, n)
	for i := range ids {
		ids[i] = first + i
	}
	return ids
}

// segmentWrites counts the writes to segments, and may fail them.
type segmentWrites struct {
	n    atomic.Int64
	fail func(nth int64) error
}

func (w *segmentWrites) hook(op vfs.Op) error {
	if op.Kind != vfs.OpWrite || !strings.HasSuffix(op.Name, ".seg") || op.Offset == 0 {
		return nil
	}
	if n := w.n.Add(1); w.fail != nil {
		return w.fail(n)
	}
	return nil
}

// TestGroupIsOneWrite: small blocks go to the device together, a block larger
// than a group by itself.
func TestGroupIsOneWrite(t *testing.T) {
	checkLeaks(t)
	w := &segmentWrites{}
	o := testOptions(vfs.WithHook(vfs.NewMem(), w.hook))
	o.CapacityBytes, o.SegmentBytes, o.MaxBlockBytes, o.MaxInflightBytes = 192*mib, 32*mib, 8*mib, 64*mib
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	for i, c := range []struct {
		blocks, size int
		writes       int64
	}{
		{1, 100, 1}, {64, 4096, 1}, {128, 16384, 1}, {256, 100, 2}, {3, 3 << 20, 3}, {2, 6 << 20, 2},
	} {
		w.n.Store(0)
		ids := idsFrom(1000*i, c.blocks)
		for j, r := range putAll(n, ids, func(int) int { return c.size }) {
			if r.Status != StatusOK {
				t.Fatalf("block %d: %v %v", ids[j], r.Status, r.Err)
			}
		}
		if got := w.n.Load(); got != c.writes {
			t.Errorf("%d blocks of %d bytes: %d writes, want %d", c.blocks, c.size, got, c.writes)
		}
		for _, id := range ids {
			wantBlock(t, n, id, 0, c.size)
		}
	}
	if st := s.Stats(); st.WritingBytes != 0 || st.WritingBytesMax == 0 || st.WritingBytesMax > s.o.WriteInflightBytes {
		t.Errorf("%d bytes with the device, most %d of %d", st.WritingBytes, st.WritingBytesMax, s.o.WriteInflightBytes)
	}
	wantNoBuffers(t, s)
	mustClose(t, s)
}

// TestBatchModel puts random batches into small segments, which fill up in the
// middle of them: new keys, stored ones, keys twice, equal contents, seals
// that match and that do not. Each block is answered as if it had come alone.
func TestBatchModel(t *testing.T) {
	checkLeaks(t)
	rapid.Check(t, func(t *rapid.T) {
		mem := vfs.NewMem()
		o := testOptions(mem)
		o.MaxInflightBytes = rapid.SampledFrom([]int64{1, 8 * mib}).Draw(t, "memory")
		s, err := Open("mem", o)
		if err != nil {
			t.Fatal(err)
		}
		n, err := s.Namespace(context.Background(), testLayout(), "tenant", NamespaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		m := batchModel{t: t, n: n, stored: map[int]batchBlock{}}
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			m.batch()
			if rapid.Bool().Draw(t, "flush") {
				if err := s.Flush(context.Background()); err != nil {
					t.Fatal(err)
				}
			}
		}
		m.check()
		if used, _, _ := s.pool.Stats(); used != 0 {
			t.Fatalf("%d bytes of buffers are still out", used)
		}
		// What was answered survives the end of the process.
		o.private.fs = mem.CrashClone(vfs.CrashOptions{KeepBytes: 1, KeepNames: 1, KeepAll: true})
		if err := s.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
		again, err := Open("mem", o)
		if err != nil {
			t.Fatal(err)
		}
		if m.n, err = again.Namespace(context.Background(), testLayout(), "tenant", NamespaceOptions{}); err != nil {
			t.Fatal(err)
		}
		m.check()
		if err := again.Close(context.Background()); err != nil {
			t.Fatal(err)
		}
	})
}

type batchBlock struct{ content, size int }

type batchModel struct {
	t      *rapid.T
	n      *Namespace
	stored map[int]batchBlock
}

func (m *batchModel) batch() {
	t := m.t
	blocks := make([]PutBlock, rapid.IntRange(1, 60).Draw(t, "blocks"))
	want := make([]PutResult, len(blocks))
	for i := range blocks {
		id := rapid.IntRange(0, 150).Draw(t, "key")
		b := batchBlock{rapid.IntRange(0, 30).Draw(t, "content"), rapid.SampledFrom([]int{24, 4095, 4096, 20000, 60000}).Draw(t, "size")}
		blocks[i] = blockOf(b.content, 0, b.size)
		blocks[i].Hash = hashOf(id)
		seal := SealOf(joined(blocks[i], "k"), joined(blocks[i], "v"))
		bad := false
		switch rapid.SampledFrom([]string{"none", "none", "good", "bad"}).Draw(t, "seal") {
		case "good":
			blocks[i].Seal = &seal
		case "bad":
			seal.ChunkSums[0]++
			blocks[i].Seal, bad = &seal, true
		}
		old, known := m.stored[id]
		switch {
		case bad:
			want[i] = PutResult{Status: StatusCorrupt}
		case known:
			want[i] = PutResult{Status: StatusOK, Existed: true, Differs: old != b}
		default:
			want[i] = PutResult{Status: StatusOK}
			m.stored[id] = b
		}
	}
	for i, r := range m.n.Put(context.Background(), blocks, PutOptions{}) {
		if r.Status != want[i].Status || r.Existed != want[i].Existed || r.Differs != want[i].Differs {
			t.Fatalf("block %d of %d: %+v, want %+v", i, len(blocks), r, want[i])
		}
	}
}

// joined returns the bytes of one plane of a block.
func joined(b PutBlock, plane string) []byte {
	for _, p := range b.Planes {
		if p.Name == plane {
			return bytes.Join(p.Spans, nil)
		}
	}
	return nil
}

func (m *batchModel) check() {
	for id, b := range m.stored {
		p := make([]byte, b.size)
		cut := b.size / 3
		r := m.n.Get(context.Background(), []GetBlock{{Hash: hashOf(id), Parts: []Part{
			{Plane: "k", Spans: [][]byte{p[:cut]}}, {Plane: "v", Spans: [][]byte{p[cut:]}},
		}}}, GetOptions{})[0]
		if r.Status != StatusOK || !bytes.Equal(p, contentOf(b.content, 0, b.size)) {
			m.t.Fatalf("key %d: %v %v", id, r.Status, r.Err)
		}
	}
}

// TestFailedGroupWrite: a write that fails takes the blocks of its group with
// it, and no others; nothing of them is visible, and the store goes on.
func TestFailedGroupWrite(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Status
	}{{syscall.EIO, StatusIOError}, {syscall.ENOSPC, StatusShed}} {
		t.Run(c.err.Error(), func(t *testing.T) {
			checkLeaks(t)
			w := &segmentWrites{fail: func(nth int64) error {
				if nth == 2 {
					return c.err
				}
				return nil
			}}
			mem := vfs.NewMem()
			o := testOptions(vfs.WithHook(mem, w.hook))
			s := mustOpen(t, o)
			n := mustSpace(t, s)
			const size = 200
			failed := 0
			ids := idsFrom(0, 3*groupRecordsMax)
			results := putAll(n, ids, func(int) int { return size })
			for i, r := range results {
				switch r.Status {
				case StatusOK:
				case c.want:
					failed++
					if !errors.Is(r.Err, c.err) {
						t.Fatalf("block %d: %v does not tell the reason", i, r.Err)
					}
				default:
					t.Fatalf("block %d: %v %v", i, r.Status, r.Err)
				}
			}
			if failed == 0 || failed > groupRecordsMax {
				t.Errorf("%d of %d blocks failed with one write", failed, len(ids))
			}
			check := func(t *testing.T, _ *Store, n *Namespace) {
				for i, r := range results {
					if r.Status == StatusOK {
						wantBlock(t, n, ids[i], 0, size)
					} else {
						wantStatus(t, n, ids[i], size, StatusMiss)
					}
				}
			}
			check(t, s, n)
			wantNoBuffers(t, s)
			mustFlush(t, s)
			o.private.fs = mem
			afterlives(t, s, mem, o, check)
		})
	}
}

// TestBatchLargerThanMemory: a batch takes the memory that there is, down to
// one block at a time, and is not shed.
func TestBatchLargerThanMemory(t *testing.T) {
	checkLeaks(t)
	o := testOptions(vfs.NewMem())
	o.MaxInflightBytes = 1 // raised to 4 blocks of MaxBlockBytes
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	ids := idsFrom(0, 40)
	for i, r := range putAll(n, ids, func(id int) int { return 1000 + 1500*id }) {
		if r.Status != StatusOK {
			t.Errorf("block %d: %v %v", i, r.Status, r.Err)
		}
	}
	for _, id := range ids {
		wantBlock(t, n, id, 0, 1000+1500*id)
	}
	wantNoBuffers(t, s)
	mustClose(t, s)
}

// TestWritesLeaveRoomForReads: with the device stalled under writes, what puts
// have with it is bounded, further puts end by their context without a
// reservation, and reads are answered.
func TestWritesLeaveRoomForReads(t *testing.T) {
	checkLeaks(t)
	fs := newStallFS(vfs.NewMem(), vfs.OpWrite, "segments/")
	o := testOptions(fs)
	o.CapacityBytes, o.SegmentBytes, o.MaxBlockBytes, o.MaxInflightBytes = 64*mib, 8*mib, 1*mib, 32*mib
	o.WriteInflightBytes = 1 // raised to 1 MiB
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 700000))
	fs.stall(t)
	first := start(t, "the put on the device", func() PutResult { return putOne(n, blockOf(1, 0, 700000)) })
	eventually(t, "the write is stalled", func() bool { return fs.stalled.Load() == 1 })
	var wg sync.WaitGroup
	for id := 2; id < 6; id++ {
		ctx := withSoon(t)
		wg.Go(func() {
			if r := n.Put(ctx, []PutBlock{blockOf(id, 0, 700000)}, PutOptions{})[0]; r.Status != StatusTimeout {
				t.Errorf("put %d: %v %v", id, r.Status, r.Err)
			}
		})
	}
	wg.Wait()
	if now := fs.stalled.Load(); now != 1 {
		t.Errorf("%d writes are with the device", now)
	}
	if st := s.Stats(); st.WritingBytes > 1*mib || st.WritingBytesMax > 1*mib {
		t.Errorf("%d bytes with the device, most %d", st.WritingBytes, st.WritingBytesMax)
	}
	wantBlock(t, n, 0, 0, 700000)
	fs.release()
	if r := first(); r.Status != StatusOK {
		t.Errorf("the first put: %v %v", r.Status, r.Err)
	}
	wantBlock(t, n, 1, 0, 700000)
	wantNoBuffers(t, s)
	mustClose(t, s)
}

// TestWriteGate: never more than its bytes, in the order of coming, and who
// gives up holds nothing.
func TestWriteGate(t *testing.T) {
	checkLeaks(t)
	rapid.Check(t, func(t *rapid.T) {
		g := newByteGate(rapid.Int64Range(1, 100).Draw(t, "most"))
		sizes := rapid.SliceOfN(rapid.Int64Range(1, 200), 1, 40).Draw(t, "sizes")
		var wg sync.WaitGroup
		for _, n := range sizes {
			wg.Go(func() {
				held, err := g.enter(context.Background(), n)
				if err != nil || held != min(n, g.maxBytes) {
					t.Errorf("entered with %d of %d, %v", held, n, err)
					return
				}
				if now := g.heldBytes.Load(); now > g.maxBytes {
					t.Errorf("%d bytes hold the gate of %d", now, g.maxBytes)
				}
				g.leave(held)
			})
		}
		wg.Wait()
		if g.heldBytes.Load() != 0 || g.mostBytes.Load() > g.maxBytes {
			t.Fatalf("%d bytes at the end, most %d of %d", g.heldBytes.Load(), g.mostBytes.Load(), g.maxBytes)
		}
		held, err := g.enter(context.Background(), g.maxBytes)
		if err != nil {
			t.Fatal(err)
		}
		gone, cancel := context.WithCancel(context.Background())
		cancel()
		if _, err := g.enter(gone, 1); !errors.Is(err, context.Canceled) {
			t.Fatalf("entered a full gate: %v", err)
		}
		g.leave(held)
	})
}

// TestDurablePutsShareSyncs: puts that come while a sync is under way are all
// made durable by the next one.
func TestDurablePutsShareSyncs(t *testing.T) {
	checkLeaks(t)
	fs := newStallFS(vfs.NewMem(), vfs.OpSync, "segments/")
	o := liveOptions(fs)
	o.SyncInterval = 1 << 40 // only as they are asked for
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, raceSize))
	eventually(t, "nothing is made ahead any more", s.hasSpare)
	mustFlush(t, s)
	fs.stall(t)
	durable := func(id int) func() PutResult {
		return start(t, "a durable put", func() PutResult {
			return n.Put(context.Background(), []PutBlock{blockOf(id, 0, 200)}, PutOptions{Durable: true})[0]
		})
	}
	puts := []func() PutResult{durable(1)}
	eventually(t, "its sync is under way", func() bool { return fs.stalled.Load() > 0 })
	before := s.Stats().Syncs
	for id := 2; id < 34; id++ {
		puts = append(puts, durable(id))
	}
	eventually(t, "all are logged", func() bool { return s.Stats().PutBlocks == 34 })
	fs.release()
	for id, wait := range puts {
		if r := wait(); r.Status != StatusOK || !r.Durable {
			t.Errorf("put %d: %v %v", id+1, r.Status, r.Err)
		}
	}
	if syncs := s.Stats().Syncs - before; syncs > 4 {
		t.Errorf("%d syncs for %d puts", syncs, len(puts))
	}
	mustClose(t, s)
}
