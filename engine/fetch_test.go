package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
	"pgregory.net/rapid"
)

// realOptions is a small store on the real file system.
func realOptions(t testing.TB) (dir string, o Options) {
	o = testOptions(nil)
	o.private.fs = nil
	o.MaxBlockBytes, o.SegmentBytes, o.CapacityBytes, o.MaxInflightBytes = 1*mib, 2*mib, 48*mib, 8*mib
	return filepath.Join(t.TempDir(), "store"), o
}

func mustBuffer(t testing.TB, s *Store, n int) []byte {
	t.Helper()
	b, err := s.NewBuffer(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Free)
	return b.Bytes()
}

// guarded is a destination cut out of larger memory, which must stay as it is
// around it.
type guarded struct {
	all, p []byte
	id     int
	plane  string
	from   int
}

func (g *guarded) poison() {
	for i := range g.all {
		g.all[i] = 0xa5
	}
}

// TestFetchBatches reads random batches: of any size and alignment, whole and
// in parts, into memory of the store and of the heap, stored next to each
// other and apart, with absent blocks and repeated ones among them.
func TestFetchBatches(t *testing.T) {
	for _, kind := range append([]PathChoice{"mem"}, PathChoices()...) {
		t.Run(string(kind), func(t *testing.T) {
			dir, o := realOptions(t)
			if o.Path = kind; kind == "mem" {
				o.private.fs, o.Path = vfs.NewMem(), PathAuto
			}
			s, err := Open(dir, o)
			if errors.Is(err, ErrPathRefused) {
				t.Skip("the path is refused here: ", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer mustClose(t, s)
			n := mustSpace(t, s)
			sizes := []int{3, 4096, 12288, 12289, 100000, 3 * 65536, 24576, 300000, 700000}
			const blocks = 64
			for id := range blocks {
				size := sizes[id%len(sizes)]
				b := blockOf(id, 0, size)
				if cut := pageCut(size); cut > 0 {
					p := contentOf(id, 0, size)
					b.Planes = []PlaneData{{Name: "k", Spans: [][]byte{p[:cut]}}, {Name: "v", Spans: [][]byte{p[cut:]}}}
				}
				mustPut(t, n, b)
			}
			mem := mustBuffer(t, s, 8<<20)
			heap := make([]byte, 8<<20)
			rapid.Check(t, func(rt *rapid.T) { fetchBatch(rt, n, mem, heap, blocks, sizes) })
			if s.Stats().StraightBytes == 0 {
				t.Error("nothing was read straight")
			}
			if st := s.Stats(); st.Rereads > 0 || st.Fetches == 0 {
				t.Errorf("%d reads were repeated, %d planned", st.Rereads, st.Fetches)
			}
			wantNoBuffers(t, s)
		})
	}
}

// pageCut is where blocks of whole pages have their planes' border: at a
// page, so that both planes may be read straight.
func pageCut(size int) int {
	if size < 3*4096 {
		return size / 3
	}
	return size / 3 &^ 4095
}

func fetchBatch(t *rapid.T, n *Namespace, mem, heap []byte, blocks int, sizes []int) {
	suited := rapid.Bool().Draw(t, "suited") // to be read straight
	rest := map[bool][]byte{true: mem, false: heap}
	var dests []*guarded
	place := func(id int, plane string, from, length int) *guarded {
		inMem := suited || rapid.Bool().Draw(t, "mem")
		all := rest[inMem]
		lead := 4096
		if !suited && rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
			lead += rapid.IntRange(1, 5000).Draw(t, "lead")
		}
		end := (lead + length + 4096 + 4095) &^ 4095
		rest[inMem] = all[end:]
		g := &guarded{all: all[:end], p: all[lead:][:length:length], id: id, plane: plane, from: from}
		g.poison()
		dests = append(dests, g)
		return g
	}
	var batch []GetBlock
	of := map[int][]*guarded{}
	for i := range rapid.IntRange(1, 8).Draw(t, "batch") {
		id := rapid.IntRange(0, blocks+3).Draw(t, "id")
		size := sizes[id%len(sizes)]
		cut := pageCut(size)
		b := GetBlock{Hash: hashOf(id)}
		for _, pl := range []struct {
			name string
			size int
		}{{"k", cut}, {"v", size - cut}} {
			part := Part{Plane: pl.name}
			from, length := 0, pl.size
			if !suited && rapid.IntRange(0, 3).Draw(t, "range") == 0 {
				from = rapid.IntRange(0, pl.size-1).Draw(t, "from")
				length = rapid.IntRange(1, pl.size-from).Draw(t, "length")
				part.OffsetBytes, part.LengthBytes = int64(from), int64(length)
			}
			if length == 0 {
				continue
			}
			g := place(id, pl.name, from, length)
			part.Spans = cutPages(t, g.p, suited)
			b.Parts, of[i] = append(b.Parts, part), append(of[i], g)
		}
		batch = append(batch, b)
	}
	results := n.Get(context.Background(), batch, GetOptions{WaitForDevice: suited || rapid.Bool().Draw(t, "wait"), WantSeal: true})
	for i, r := range results {
		for _, g := range of[i] {
			size := sizes[g.id%len(sizes)]
			want := contentOf(g.id, 0, size)
			if cut := pageCut(size); g.plane == "k" {
				want = want[:cut]
			} else {
				want = want[cut:]
			}
			switch {
			case g.id >= blocks && r.Status != StatusMiss, g.id < blocks && r.Status != StatusOK:
				t.Fatalf("block %d: %v %v", g.id, r.Status, r.Err)
			case g.id < blocks && !bytes.Equal(g.p, want[g.from:g.from+len(g.p)]):
				t.Fatalf("block %d plane %s: WRONG BYTES with status OK", g.id, g.plane)
			case g.id >= blocks && !untouched(g.p):
				t.Fatalf("block %d: a miss, and the destination was written", g.id)
			}
		}
	}
	for _, g := range dests {
		before, after := around(g)
		if !untouched(before) || !untouched(after) {
			t.Fatalf("block %d plane %s: a byte outside of the spans was written", g.id, g.plane)
		}
	}
}

// around is what lies before and behind a destination in its memory.
func around(g *guarded) (before, after []byte) {
	from := int(rangeOf(g.p).from - rangeOf(g.all).from)
	return g.all[:from], g.all[from+len(g.p):]
}

// cutPages cuts p at pages, or anywhere.
func cutPages(t *rapid.T, p []byte, pages bool) (spans [][]byte) {
	for range rapid.IntRange(0, 3).Draw(t, "cuts") {
		at := rapid.IntRange(0, len(p)).Draw(t, "cut")
		if pages || rapid.Bool().Draw(t, "at a page") {
			at &^= 4095
		}
		if pages && (at == 0 || at == len(p)) {
			continue
		}
		spans, p = append(spans, p[:at:at]), p[at:]
	}
	return append(spans, p)
}

// wholeOf is a get of a block of one page-cut pair of planes into p.
func wholeOf(id int, p []byte) GetBlock {
	cut := pageCut(len(p))
	return GetBlock{Hash: hashOf(id), Parts: []Part{{Plane: "k", Spans: [][]byte{p[:cut]}}, {Plane: "v", Spans: [][]byte{p[cut:]}}}}
}

// putPages puts a block whose planes meet at a page.
func putPages(t testing.TB, n *Namespace, id, size int) {
	t.Helper()
	p := contentOf(id, 0, size)
	cut := pageCut(size)
	mustPut(t, n, PutBlock{Hash: hashOf(id), Planes: []PlaneData{{Name: "k", Spans: [][]byte{p[:cut]}}, {Name: "v", Spans: [][]byte{p[cut:]}}}})
}

// TestFetchJoins: neighbours cost one read, a gap that is small too, and a
// far block or one of another segment another.
func TestFetchJoins(t *testing.T) {
	for _, c := range []struct {
		name    string
		size    int
		ids     []int
		fetches int64
	}{
		{"one", 20480, []int{3}, 1},
		{"four neighbours, in any order", 20480, []int{5, 3, 4, 6}, 1},
		{"the same twice", 20480, []int{3, 3}, 2},
		{"a small gap", 40960, []int{3, 4, 5, 7}, 1},
		{"a gap larger than a quarter", 40960, []int{3, 5}, 2},
		{"up to 1 MiB together", 40960, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26}, 2},
	} {
		for _, wait := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/wait=%v", c.name, wait), func(t *testing.T) {
				s := mustOpen(t, bigOptions())
				defer mustClose(t, s)
				n := mustSpace(t, s)
				for id := range 30 {
					putPages(t, n, id, c.size)
				}
				mem := mustBuffer(t, s, c.size*len(c.ids))
				var batch []GetBlock
				for i, id := range c.ids {
					batch = append(batch, wholeOf(id, mem[i*c.size:][:c.size]))
				}
				for i, r := range n.Get(context.Background(), batch, GetOptions{WaitForDevice: wait}) {
					if r.Status != StatusOK || !bytes.Equal(mem[i*c.size:][:c.size], contentOf(c.ids[i], 0, c.size)) {
						t.Fatalf("block %d: %v %v", c.ids[i], r.Status, r.Err)
					}
				}
				want := c.fetches
				if wait && c.name == "a small gap" {
					want++ // nowhere to put the bytes between
				}
				st := s.Stats()
				if st.Fetches != want || st.ReadAlone != 0 {
					t.Errorf("%d reads, want %d; %d blocks read alone", st.Fetches, want, st.ReadAlone)
				}
				if straight := int64(c.size * len(c.ids)); wait && st.StraightBytes != straight || !wait && st.StraightBytes != 0 {
					t.Errorf("%d bytes read straight", st.StraightBytes)
				}
			})
		}
	}
}

// TestFetchChunksTogether: a range costs one read of header and chunks where
// they are near, else one for each.
func TestFetchChunksTogether(t *testing.T) {
	s := mustOpen(t, bigOptions())
	defer mustClose(t, s)
	l := testLayout()
	l.Planes[0].SizeBytes, l.Planes[1].SizeBytes = 5*ChunkBytes, 5*ChunkBytes
	n, err := s.Namespace(context.Background(), l, "tenant", NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p := contentOf(1, 0, 10*ChunkBytes)
	mustPut(t, n, PutBlock{Hash: hashOf(1), Planes: []PlaneData{{Name: "k", Spans: [][]byte{p[:5*ChunkBytes]}}, {Name: "v", Spans: [][]byte{p[5*ChunkBytes:]}}}})
	for _, c := range []struct {
		plane        string
		from, length int
		bytes        int64
	}{
		{"k", 0, 10, 4096 + ChunkBytes},
		{"k", ChunkBytes, 1, 4096 + 2*ChunkBytes}, // the chunk between is read too
		{"k", 3 * ChunkBytes, ChunkBytes, 4096 + ChunkBytes},
		{"v", 4*ChunkBytes + 5, 100, 4096 + ChunkBytes},
		{"v", ChunkBytes - 1, 2, 4096 + 2*ChunkBytes},
	} {
		before := s.Stats()
		got := make([]byte, c.length)
		r := n.Get(context.Background(), []GetBlock{{Hash: hashOf(1), Parts: []Part{
			{Plane: c.plane, OffsetBytes: int64(c.from), LengthBytes: int64(c.length), Spans: [][]byte{got}},
		}}}, GetOptions{})[0]
		want := p[c.from:]
		if c.plane == "v" {
			want = p[5*ChunkBytes+c.from:]
		}
		if r.Status != StatusOK || !bytes.Equal(got, want[:c.length]) {
			t.Fatalf("%+v: %v %v", c, r.Status, r.Err)
		}
		after := s.Stats()
		if n := after.FetchedBytes - before.FetchedBytes; n != c.bytes || after.Fetches-before.Fetches != 1 || after.ReadAlone > 0 {
			t.Errorf("%+v: %d bytes fetched in %d reads, want %d in 1", c, n, after.Fetches-before.Fetches, c.bytes)
		}
	}
}

// TestFetchOverlapping: of blocks whose destinations overlap only the first
// is read.
func TestFetchOverlapping(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for id := range 3 {
		putPages(t, n, id, 12288)
	}
	mem := mustBuffer(t, s, 4*12288)
	for _, c := range []struct {
		name string
		at   [3]int
		want [3]Status
	}{
		{"apart", [3]int{0, 12288, 24576}, [3]Status{StatusOK, StatusOK, StatusOK}},
		{"one destination twice", [3]int{0, 0, 24576}, [3]Status{StatusOK, StatusInvalid, StatusOK}},
		{"one byte", [3]int{12287, 24576, 0}, [3]Status{StatusOK, StatusOK, StatusInvalid}},
		{"all", [3]int{5, 4, 3}, [3]Status{StatusOK, StatusInvalid, StatusInvalid}},
	} {
		for _, wait := range []bool{false, true} {
			var batch []GetBlock
			for id, at := range c.at {
				batch = append(batch, wholeOf(id, mem[at:][:12288:12288]))
			}
			for id, r := range n.Get(context.Background(), batch, GetOptions{WaitForDevice: wait}) {
				if r.Status != c.want[id] {
					t.Errorf("%s: block %d: %v (%v), want %v", c.name, id, r.Status, r.Err, c.want[id])
				}
				if r.Status == StatusOK && !bytes.Equal(mem[c.at[id]:][:12288], contentOf(id, 0, 12288)) {
					t.Errorf("%s: block %d: WRONG BYTES with status OK", c.name, id)
				}
			}
		}
	}
}

// TestFetchStraightCorrupt: what does not verify leaves the caller's memory
// again, and costs its neighbours nothing.
func TestFetchStraightCorrupt(t *testing.T) {
	const size = 3*4096 + 77
	for _, once := range []bool{true, false} {
		t.Run(fmt.Sprintf("once=%v", once), func(t *testing.T) {
			var flip flipReads
			mem := vfs.NewMem()
			s := mustOpen(t, testOptions(vfs.WithReadFilter(mem, flip.filter)))
			defer mustClose(t, s)
			n := mustSpace(t, s)
			for id := range 3 {
				putPages(t, n, id, size)
			}
			if err := s.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
			found, err := s.lookup(context.Background(), n.mustKeys(t, 1), false)
			if err != nil || !found[0].ok {
				t.Fatal(err)
			}
			e := found[0].entry
			flip.once.Store(once)
			flip.aim(disk.SegmentName(e.Address.Segment), e.Address.Offset()+2*disk.PageBytes+9)
			p := mustBuffer(t, s, 3*4*4096)
			var batch []GetBlock
			for id := range 3 {
				b := wholeOf(id, p[id*4*4096:][:size])
				batch = append(batch, b)
			}
			for i := range p {
				p[i] = 0xa5
			}
			r := n.Get(context.Background(), batch, GetOptions{WaitForDevice: true})
			for id := range 3 {
				got := p[id*4*4096:][:size]
				switch {
				case r[id].Status == StatusOK && bytes.Equal(got, contentOf(id, 0, size)):
					if id == 1 && !once {
						t.Error("damaged for good, and OK")
					}
				case id == 1 && !once && r[id].Status == StatusCorrupt:
					for i, b := range got {
						if b != 0 && b != 0xa5 {
							t.Fatalf("byte %d of a corrupt block is %#x: neither old nor zero", i, b)
						}
					}
				default:
					t.Errorf("block %d: %v %v", id, r[id].Status, r[id].Err)
				}
			}
			if st := s.Stats(); once && st.RereadsSaved != 1 || !once && st.Quarantined != 1 {
				t.Errorf("%d saved by reading again, %d quarantined", st.RereadsSaved, st.Quarantined)
			}
		})
	}
}

func (n *Namespace) mustKeys(t testing.TB, ids ...int) []index.Key {
	t.Helper()
	var hashes [][]byte
	for _, id := range ids {
		hashes = append(hashes, hashOf(id))
	}
	keys, err := n.keys(hashes)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// TestFetchWaitsForDevice: with WaitForDevice a get outlasts its context
// until the device has let go of the caller's memory; without, it does not.
func TestFetchWaitsForDevice(t *testing.T) {
	checkLeaks(t)
	for _, wait := range []bool{true, false} {
		t.Run(fmt.Sprintf("wait=%v", wait), func(t *testing.T) {
			stall := newStallFS(vfs.NewMem(), vfs.OpRead, "segments/")
			s := mustOpen(t, testOptions(stall))
			defer mustClose(t, s)
			n := mustSpace(t, s)
			const size = 12288
			putPages(t, n, 1, size)
			if err := s.Flush(context.Background()); err != nil {
				t.Fatal(err)
			}
			p := mustBuffer(t, s, size)
			stall.stall(t)
			ctx, cancel := context.WithCancel(context.Background())
			var returned atomic.Bool
			answer := make(chan GetResult, 1)
			go func() {
				r := n.Get(ctx, []GetBlock{wholeOf(1, p)}, GetOptions{WaitForDevice: wait})[0]
				returned.Store(true)
				answer <- r
			}()
			eventually(t, "the read hangs", func() bool { return stall.stalled.Load() > 0 })
			cancel()
			if wait {
				time.Sleep(20 * time.Millisecond) // a chance to be wrong
				if returned.Load() {
					t.Error("the get returned while the device had the memory")
				}
				stall.release()
				if r := <-answer; r.Status != StatusOK || !bytes.Equal(p, contentOf(1, 0, size)) {
					t.Errorf("%v %v", r.Status, r.Err)
				}
				return
			}
			if r := <-answer; r.Status != StatusTimeout || !errors.Is(r.Err, context.Canceled) {
				t.Errorf("%v %v", r.Status, r.Err)
			}
			before := bytes.Clone(p)
			stall.release()
			wantNoBuffers(t, s)
			if !bytes.Equal(p, before) {
				t.Error("the memory was written after the get returned")
			}
		})
	}
}

// TestEndedContextReadsNothing: what was planned and not begun when the caller
// left is not read for nobody.
func TestEndedContextReadsNothing(t *testing.T) {
	points := &rendezvous{}
	o := bigOptions()
	o.MaxInflightBytes = 4 * mib // a few rounds for the batch
	o.private.points = points.at
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n := mustSpace(t, s)
	const size, blocks = 1 << 20, 12
	for id := range blocks {
		putPages(t, n, id, size)
	}
	first, _ := fakePaths(s)
	var batch []GetBlock
	for id := range blocks {
		batch = append(batch, wholeOf(id, make([]byte, size)))
	}
	held := points.arm(t, "read:acquired")
	ctx, cancel := context.WithCancel(context.Background())
	answer := make(chan []GetResult, 1)
	go func() { answer <- n.Get(ctx, batch, GetOptions{}) }()
	held.wait(t)
	cancel()
	for i, r := range <-answer {
		if r.Status != StatusTimeout {
			t.Errorf("block %d: %v %v", i, r.Status, r.Err)
		}
	}
	held.open()
	wantNoBuffers(t, s)
	eventually(t, "the work has ended", func() bool { return s.slots.running() == 0 })
	if got := first.reads.Load(); got >= blocks {
		t.Errorf("%d blocks were read for a caller who had left", got)
	}
}

// TestMemoryMap holds the map of lent memory to a plain list.
func TestMemoryMap(t *testing.T) {
	all := make([]byte, 1<<16)
	rapid.Check(t, func(t *rapid.T) {
		var m memoryMap
		lent := map[int]int{}
		for at := 0; at < len(all)-64; {
			n := rapid.IntRange(1, 9000).Draw(t, "length")
			n = min(n, len(all)-at)
			if rapid.Bool().Draw(t, "lend") {
				m.add(all[at : at+n])
				lent[at] = n
			}
			at += n
		}
		for at, n := range lent {
			if rapid.Bool().Draw(t, "free") {
				m.remove(all[at : at+n])
				delete(lent, at)
			}
		}
		at := rapid.IntRange(0, len(all)-1).Draw(t, "at")
		n := rapid.IntRange(1, len(all)-at).Draw(t, "n")
		want := false
		for from, size := range lent {
			want = want || at >= from && at+n <= from+size
		}
		if got := m.holds(all[at : at+n]); got != want {
			t.Fatalf("[%d, %d) held: %v, want %v", at, at+n, got, want)
		}
	})
}
