package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/vfs"
	"pgregory.net/rapid"
)

// viewSpace is a namespace of a property test: a layout and a codec.
type viewSpace struct {
	n      *Namespace
	planes int
	fixed  bool
	ids    []int
	sizes  map[int][]int // of the planes, by block
}

// openViewSpaces makes namespaces of one, two and five planes, of sizes that
// the layout tells or not, under every codec.
func openViewSpaces(t testing.TB, s *Store) (out []*viewSpace) {
	for _, planes := range []int{1, 2, 5} {
		for _, fixed := range []bool{false, true} {
			for _, c := range []Compression{CompressionOff, CompressionS2, CompressionZstd} {
				l := layout.Opaque(fmt.Sprint("view ", planes, fixed, c))
				l.Planes = nil
				for i := range planes {
					p := layout.Plane{Name: fmt.Sprint("plane", i)}
					if fixed {
						p.SizeBytes = int64(3000*i*i + 4096)
					}
					l.Planes = append(l.Planes, p)
				}
				n, err := s.Namespace(context.Background(), l, "tenant", NamespaceOptions{Compression: c})
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, &viewSpace{n: n, planes: planes, fixed: fixed, sizes: map[int][]int{}})
			}
		}
	}
	return out
}

// viewContent is bytes of a block's plane: some compress well, some hardly,
// some not at all, and of some only the second half does.
func viewContent(id, plane, size int) []byte {
	p := contentOf(id, plane, size)
	switch id % 4 {
	case 0:
		for i := range p {
			if i%64 > 3 {
				p[i] = 0
			}
		}
	case 1:
		clear(p[size/2:])
	case 2:
		for i := 0; i < size; i += 10 {
			p[i] = 0
		}
	}
	return p
}

// put stores block id with planes of some sizes.
func (v *viewSpace) put(t *rapid.T, id int) {
	b := PutBlock{Hash: hashOf(id)}
	sizes := make([]int, v.planes)
	for i := range sizes {
		if v.fixed {
			sizes[i] = 3000*i*i + 4096
		} else {
			sizes[i] = rapid.SampledFrom([]int{1, 100, 4095, 4096, 4097, 8192, 30000, 65536, 65537, 140000}).Draw(t, "size")
		}
		b.Planes = append(b.Planes, PlaneData{Name: fmt.Sprint("plane", i), Spans: [][]byte{viewContent(id, i, sizes[i])}})
	}
	if r := putOne(v.n, b); r.Status != StatusOK {
		t.Fatalf("put: %v %v", r.Status, r.Err)
	}
	v.ids, v.sizes[id] = append(v.ids, id), sizes
}

// get reads a block by Get, whole.
func (v *viewSpace) get(id int) ([][]byte, GetResult) {
	b := GetBlock{Hash: hashOf(id)}
	sizes := v.sizes[id]
	if sizes == nil {
		sizes = make([]int, v.planes)
	}
	planes := make([][]byte, v.planes)
	for i := range planes {
		planes[i] = make([]byte, sizes[i])
		b.Parts = append(b.Parts, Part{Plane: fmt.Sprint("plane", i), Spans: [][]byte{planes[i]}})
	}
	return planes, v.n.Get(context.Background(), []GetBlock{b}, GetOptions{WantSeal: true})[0]
}

// TestViewIsGet: a view shows what a get of the same block copies, with the
// same status, seal and verified bytes, whatever the layout, the codec, the
// neighbours on disk and the others of the batch, present, absent or twice.
func TestViewIsGet(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.MaxBlockBytes, o.SegmentBytes, o.CapacityBytes, o.MaxInflightBytes = 1*mib, 4*mib, 256*mib, 16*mib
	s := mustOpen(t, o)
	defer mustClose(t, s)
	spaces := openViewSpaces(t, s)
	next := 0
	rapid.Check(t, func(rt *rapid.T) {
		v := rapid.SampledFrom(spaces).Draw(rt, "space")
		for range rapid.IntRange(0, 4).Draw(rt, "puts") {
			v.put(rt, next)
			next++
		}
		var ids []int
		var hashes [][]byte
		for range rapid.IntRange(0, 9).Draw(rt, "batch") {
			id := -1 - next // nobody's
			if len(v.ids) > 0 && rapid.IntRange(0, 5).Draw(rt, "absent") > 0 {
				id = rapid.SampledFrom(v.ids).Draw(rt, "id")
			}
			ids, hashes = append(ids, id), append(hashes, hashOf(id))
		}
		views := v.n.View(context.Background(), hashes, ViewOptions{WantSeal: true})
		if len(views) != len(ids) {
			rt.Fatalf("%d views of %d blocks", len(views), len(ids))
		}
		for i := range views {
			v.compare(rt, ids[i], &views[i])
		}
		for _, i := range rapid.Permutation(indices(len(views))).Draw(rt, "order") {
			views[i].Release()
		}
		if held := s.lent.heldBytes.Load(); held != 0 {
			rt.Fatalf("%d bytes are lent after all was released", held)
		}
	})
	if st := s.Stats(); st.Rereads > 0 || st.ReadAlone > st.Fetches {
		t.Errorf("%d reads were repeated, %d read alone of %d planned", st.Rereads, st.ReadAlone, st.Fetches)
	}
	wantAllReleased(t, s)
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func (v *viewSpace) compare(t *rapid.T, id int, got *View) {
	planes, want := v.get(id)
	if got.Status != want.Status || (got.Err == nil) != (want.Err == nil) {
		t.Fatalf("block %d: view %v %v, get %v %v", id, got.Status, got.Err, want.Status, want.Err)
	}
	if want.Status != StatusOK {
		if got.Planes != nil || got.held != nil || want.Status != StatusMiss {
			t.Fatalf("block %d: %v, and %d planes are lent", id, want.Status, len(got.Planes))
		}
		return
	}
	if !reflect.DeepEqual(got.Seal, want.Seal) || got.VerifiedBytes != want.VerifiedBytes || got.Bytes() != want.Bytes {
		t.Fatalf("block %d: %d bytes, %d verified, seal %v; get %+v", id, got.Bytes(), got.VerifiedBytes, got.Seal, want)
	}
	for i := range planes {
		if !bytes.Equal(got.Planes[i], planes[i]) || !bytes.Equal(planes[i], viewContent(id, i, v.sizes[id][i])) {
			t.Fatalf("block %d plane %d: WRONG BYTES with status OK", id, i)
		}
	}
}

// TestViewArguments: what is refused without a look at the disk.
func TestViewArguments(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(1, 0, 5000))
	views := n.View(context.Background(), [][]byte{nil, []byte("short"), bytes.Repeat([]byte{1}, 65), hashOf(2), hashOf(1)}, ViewOptions{})
	for i, want := range []Status{StatusInvalid, StatusInvalid, StatusInvalid, StatusMiss} {
		wantNothingLent(t, &views[i], want)
	}
	views[0].Release() // of what is not OK it is nothing
	if views[4].Seal != nil {
		t.Error("a seal that nobody asked for")
	}
	wantShown(t, &views[4], 1, 0, 5000)
	if got := n.View(context.Background(), nil, ViewOptions{}); len(got) != 0 {
		t.Errorf("%d views of nothing", len(got))
	}
	newer, err := n.BumpEpoch(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	v := viewOne(n, hashOf(1))
	wantNothingLent(t, &v, StatusStaleEpoch)
	if !errors.Is(v.Err, ErrEpoch) {
		t.Error(v.Err)
	}
	v = viewOne(newer, hashOf(1))
	wantNothingLent(t, &v, StatusMiss)
	wantAllReleased(t, s)
	mustClose(t, s)
	v = viewOne(n, hashOf(1))
	wantNothingLent(t, &v, StatusClosed)
}

// TestViewNeighbours: neighbours on disk are read together, and their memory
// is one loan that comes back with the last of them.
func TestViewNeighbours(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	var ids []int
	for id := range 8 {
		mustPut(t, n, blockOf(id, 0, 8192))
		ids = append(ids, id)
	}
	before := s.Stats().Fetches
	views := n.View(context.Background(), hashesOf(ids...), ViewOptions{})
	if got := s.Stats().Fetches - before; got != 1 {
		t.Errorf("%d reads for %d neighbours", got, len(ids))
	}
	held := s.Stats().LentBytes
	if held < 8*8192 || s.Stats().InflightBytes < held {
		t.Errorf("%d bytes lent, %d in flight", held, s.Stats().InflightBytes)
	}
	for i := range views[1:] {
		wantShown(t, &views[i+1], i+1, 0, 8192)
		if now := s.Stats().LentBytes; now != held {
			t.Fatalf("%d bytes lent with one view left, of %d", now, held)
		}
	}
	wantShown(t, &views[0], 0, 0, 8192)
	wantAllReleased(t, s)
}

// TestViewReleaseTwice: of a view and its copies one release counts, also when
// others still show the same memory.
func TestViewReleaseTwice(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for id := range 2 {
		mustPut(t, n, blockOf(id, 0, 8192))
	}
	views := n.View(context.Background(), hashesOf(0, 1), ViewOptions{})
	again := views[0]
	views[0].Release()
	views[0].Release()
	again.Release()
	if s.lent.heldBytes.Load() == 0 {
		t.Fatal("the memory of the other view went too")
	}
	if views[0].Planes != nil {
		t.Error("a released view shows planes")
	}
	wantShown(t, &views[1], 1, 0, 8192)
	wantAllReleased(t, s)
}

// TestViewIsUse: a viewed block is kept by an eviction as one that was got.
func TestViewIsUse(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 8192))
	mustPut(t, n, blockOf(1, 0, 8192))
	fillSegment(t, s, n, 10)
	mustFlush(t, s)
	s.used = usedBlocks{}
	v := viewOne(n, hashOf(0))
	wantShown(t, &v, 0, 0, 8192)
	mustEvict(t, s)
	v = viewOne(n, hashOf(0))
	wantShown(t, &v, 0, 0, 8192)
	wantStatus(t, n, 1, 8192, StatusMiss)
	st := s.Stats()
	if st.GetStatus[StatusOK] != 2 || st.GetStatus[StatusMiss] != 1 || st.ServedBytes != 2*8192 {
		t.Errorf("counted: %v, %d bytes served", st.GetStatus, st.ServedBytes)
	}
}

// TestViewPaths: each way of moving bytes brings the same views, large ones
// that are read in parts among them.
func TestViewPaths(t *testing.T) {
	for _, kind := range PathChoices() {
		t.Run(string(kind), func(t *testing.T) {
			dir, o := realOptions(t)
			o.Path = kind
			s, err := Open(dir, o)
			if errors.Is(err, ErrPathRefused) {
				t.Skip("the path is refused here: ", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			defer mustClose(t, s)
			n := mustSpace(t, s)
			one, err := s.Namespace(context.Background(), oneLayout(), "tenant", NamespaceOptions{})
			if err != nil {
				t.Fatal(err)
			}
			large := contentOf(99, 0, 1<<20)
			mustPut(t, one, PutBlock{Hash: hashOf(99), Planes: []PlaneData{{Spans: [][]byte{large}}}})
			sizes := []int{3, 8192, 100000, 700000}
			for id, size := range sizes {
				mustPut(t, n, blockOf(id, 0, size))
			}
			for range 3 {
				views := n.View(context.Background(), hashesOf(0, 1, 2, 3), ViewOptions{})
				for id, size := range sizes {
					wantShown(t, &views[id], id, 0, size)
				}
				v := viewOne(one, hashOf(99))
				if v.Status != StatusOK || !bytes.Equal(v.Planes[0], large) {
					t.Fatalf("large block: %v %v", v.Status, v.Err)
				}
				v.Release()
			}
			wantAllReleased(t, s)
		})
	}
}
