package engine

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// storeKey reads the store's real secret, as somebody with a copy of this
// program could.
func storeKey(t testing.TB, fs vfs.FS) sums.Key {
	t.Helper()
	m, _, err := meta.Open(fs, true)
	if err != nil {
		t.Fatal(err)
	}
	return m.Key()
}

// readBytes and writeBytes take a piece of a file as it is.
func readBytes(t testing.TB, fs vfs.FS, name string, off, n int64) []byte {
	t.Helper()
	var out []byte
	patch(t, fs, name, off, func(p []byte) { out = append(out, p...) }, int(n))
	return out
}

func writeBytes(t testing.TB, fs vfs.FS, name string, off int64, p []byte) {
	t.Helper()
	patch(t, fs, name, off, func(old []byte) { copy(old, p) }, len(p))
}

func payloadRange(e index.Entry) (name string, off, n int64) {
	head := int64(e.HeaderPages) * disk.PageBytes
	return disk.SegmentName(e.Address.Segment), e.Address.Offset() + head, e.Bytes() - head
}

// wantLost examines a damaged clone: exactly these blocks are lost, with a
// word each, and the rest is served.
func (v *victimStore) wantLost(t *testing.T, fs *vfs.Mem, ids ...int) {
	t.Helper()
	tally := faulttest.New(t)
	fault := tally.Try("damage")
	if treesDiffer(t, v.fs, fs) {
		fault.Fire()
	}
	vd := v.examine(fs)
	tally.WrongBytes(vd.wrongBytes)
	if len(vd.wrong) > 0 || len(vd.status) == 0 {
		t.Fatalf("%q, reported %q", vd.wrong, vd.reported)
	}
	if lost := vd.lost(); !subset(lost, ids) || !subset(ids, lost) {
		t.Fatalf("blocks %v are lost, want %v; reported %q", lost, ids, vd.reported)
	}
	if len(ids) > 0 && len(vd.reported) == 0 {
		t.Fatal("nobody has noticed")
	}
	// What was quarantined stays out, also after the index is rebuilt.
	if err := fs.RemoveAll(indexDir); err != nil {
		t.Fatal(err)
	}
	again := v.examine(fs)
	if len(again.wrong) > 0 || len(again.status) == 0 {
		t.Fatalf("after a rebuild: %q, reported %q", again.wrong, again.reported)
	}
	if lost := again.lost(); !subset(ids, lost) {
		t.Fatalf("after a rebuild only %v are lost, want at least %v", lost, ids)
	}
	tally.WrongBytes(again.wrongBytes)
	fault.Survive()
}

// treesDiffer reports whether two trees differ in a name or a byte.
func treesDiffer(t testing.TB, a, b vfs.FS) bool {
	t.Helper()
	names := allFiles(t, a, ".")
	if !slices.Equal(names, allFiles(t, b, ".")) {
		return true
	}
	for _, n := range names {
		if !bytes.Equal(readWhole(t, a, n), readWhole(t, b, n)) {
			return true
		}
	}
	return false
}

// allFiles lists the files of a tree by their whole names.
func allFiles(t testing.TB, fs vfs.FS, dir string) (out []string) {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		n = path.Join(dir, n)
		info, err := fs.Stat(n)
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir {
			out = append(out, allFiles(t, fs, n)...)
		} else {
			out = append(out, n)
		}
	}
	return out
}

// equalPair adds two blocks of equal length.
func (v *victimStore) withPair(t *testing.T) *victimStore {
	t.Helper()
	w := *v
	w.fs, w.entries = v.clone(), map[int]index.Entry{}
	s := mustOpen(t, victimOptions(w.fs))
	n := mustSpace(t, s)
	w.put(t, n, victimBlock{21, 21, 0, 30000}, victimBlock{22, 22, 0, 30000})
	mustFlush(t, s)
	for _, b := range w.blocks {
		w.entries[b.id] = w.locate(t, s, n, b.id)
	}
	mustClose(t, s)
	w.setBaseline(t)
	return &w
}

func TestLaw1SwappedPayloads(t *testing.T) {
	v := newVictim(t).withPair(t)
	a, b := v.entries[21], v.entries[22]
	if a.Bytes() != b.Bytes() {
		t.Fatal("the pair is not of equal length")
	}
	t.Run("payloads", func(t *testing.T) {
		fs := v.clone()
		nameA, offA, n := payloadRange(a)
		nameB, offB, _ := payloadRange(b)
		pa, pb := readBytes(t, fs, nameA, offA, n), readBytes(t, fs, nameB, offB, n)
		writeBytes(t, fs, nameA, offA, pb)
		writeBytes(t, fs, nameB, offB, pa)
		v.wantLost(t, fs, 21, 22)
	})
	t.Run("one payload misdirected", func(t *testing.T) {
		fs := v.clone()
		nameA, offA, n := payloadRange(a)
		nameB, offB, _ := payloadRange(b)
		writeBytes(t, fs, nameB, offB, readBytes(t, fs, nameA, offA, n))
		v.wantLost(t, fs, 22)
	})
	t.Run("whole extents", func(t *testing.T) {
		fs := v.clone()
		name := disk.SegmentName(a.Address.Segment)
		pa, pb := readBytes(t, fs, name, a.Address.Offset(), a.Bytes()), readBytes(t, fs, name, b.Address.Offset(), b.Bytes())
		writeBytes(t, fs, name, a.Address.Offset(), pb)
		writeBytes(t, fs, name, b.Address.Offset(), pa)
		v.wantLost(t, fs, 21, 22)
	})
	t.Run("chunks of one block", func(t *testing.T) {
		// Equal halves of a chunk change places: the length is right, so is
		// every byte, only not where it stands.
		fs := v.clone()
		name, off, _ := payloadRange(a)
		patch(t, fs, name, off, func(p []byte) {
			for i := range p[:2048] {
				p[i], p[i+2048] = p[i+2048], p[i]
			}
		}, 4096)
		v.wantLost(t, fs, 21)
	})
}

// rewrite changes the bytes of a block and makes its header agree with them,
// as far as level says.
func (v *victimStore) rewrite(t *testing.T, fs vfs.FS, id, level int) (header []byte, sum uint64) {
	t.Helper()
	e, k := v.entries[id], storeKey(t, fs)
	name, off, n := payloadRange(e)
	ext, _, err := disk.DecodeExtent(readBytes(t, fs, name, e.Address.Offset(), int64(e.HeaderPages)*disk.PageBytes), k)
	if err != nil {
		t.Fatal(err)
	}
	payload := readBytes(t, fs, name, off, n)
	for i := range ext.Planes {
		payload[ext.Planes[i].OffsetBytes] ^= 0x10
	}
	writeBytes(t, fs, name, off, payload)
	if level >= rewriteChunks {
		lens, chunks := []int64{}, []uint64{}
		for i := range ext.Planes {
			lens = append(lens, ext.Planes[i].RawBytes)
		}
		for i := range ext.Chunks {
			_, at, n := ext.ChunkSpan(i)
			ext.Chunks[i].RawSum = sums.Chunk(payload[at : at+int64(n)])
			chunks = append(chunks, ext.Chunks[i].RawSum)
		}
		if level >= rewriteContent {
			ext.ContentID = sums.Content(lens, chunks)
		}
	}
	header = make([]byte, int(ext.HeaderPages)*disk.PageBytes)
	if sum, err = disk.EncodeExtent(header, ext, k); err != nil {
		t.Fatal(err)
	}
	if level == rewriteKeepSum { // the sum that the index expects, over other fields
		copy(header[24:32], readBytes(t, fs, name, e.Address.Offset()+24, 8))
	}
	writeBytes(t, fs, name, e.Address.Offset(), header)
	return header, sum
}

const (
	rewritePayload = iota
	rewriteChunks  // chunk sums and the keyed header sum
	rewriteContent // and the content id
	rewriteKeepSum // all of it, under the old header sum
)

// TestLaw1RewrittenConsistently: nothing that stands beside the data
// authenticates the data; the index does.
func TestLaw1RewrittenConsistently(t *testing.T) {
	v := newVictim(t)
	for level, name := range []string{"payload alone", "chunk sums", "content id", "old header sum kept"} {
		for _, id := range []int{4, 7} { // in a sealed and in an unsealed segment
			t.Run(fmt.Sprintf("%s, block %d", name, id), func(t *testing.T) {
				fs := v.clone()
				v.rewrite(t, fs, id, level)
				v.wantLost(t, fs, id)
			})
		}
	}
	t.Run("the target of aliases", func(t *testing.T) {
		fs := v.clone()
		v.rewrite(t, fs, 3, rewriteContent)
		v.wantLost(t, fs, 3, 5, 8)
	})
	t.Run("footer too", func(t *testing.T) {
		fs := v.clone()
		_, sum := v.rewrite(t, fs, 4, rewriteContent)
		v.rewriteFooter(t, fs, v.entries[4].Address, sum)
		v.wantLost(t, fs, 4)
	})
}

// rewriteFooter makes the footer agree with a rewritten header.
func (v *victimStore) rewriteFooter(t *testing.T, fs vfs.FS, at disk.Address, sum uint64) {
	t.Helper()
	start, end := v.footerRange(t)
	name, k, uuid := disk.SegmentName(at.Segment), storeKey(t, fs), victimOptions(fs).private.uuid
	page := uint32(start / disk.PageBytes)
	entries, err := disk.DecodeFooter(readBytes(t, fs, name, start, end-start), at.Segment, page, uuid, k)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if entries[i].Page == at.Page {
			entries[i].HeaderSum = sum
		}
	}
	p, err := disk.EncodeFooter(entries, at.Segment, page, uuid, k)
	if err != nil {
		t.Fatal(err)
	}
	writeBytes(t, fs, name, start, p)
}

// fork lets two futures of the same store put the same key, at the same place
// and with the same put sequence, with different bytes.
func (v *victimStore) fork(t *testing.T, variant int) (w *victimStore) {
	t.Helper()
	w = &victimStore{fs: v.clone(), entries: map[int]index.Entry{}, segments: v.segments}
	s := mustOpen(t, victimOptions(w.fs))
	n := mustSpace(t, s)
	w.put(t, n, victimBlock{31, 31, variant, 9000}, victimBlock{32, 32, 0, 9000})
	mustFlush(t, s)
	for _, b := range w.blocks {
		w.entries[b.id] = w.locate(t, s, n, b.id)
	}
	mustClose(t, s)
	w.setBaseline(t)
	return w
}

// copyFile puts a file of another store in the place of this one's.
func copyFile(t *testing.T, from, to vfs.FS, name string) {
	t.Helper()
	p := readWhole(t, from, name)
	f, err := to.Open(name, vfs.Create|vfs.Trunc|vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(p, 0); err != nil {
		t.Fatal(err)
	}
}

func TestLaw1StaleSegment(t *testing.T) {
	v := newVictim(t)
	t.Run("of another future of the store", func(t *testing.T) {
		a, b := v.fork(t, 0), v.fork(t, 1)
		if x, y := a.entries[31], b.entries[31]; x.Address != y.Address || x.Seq != y.Seq || x.HeaderSum == y.HeaderSum {
			t.Fatalf("the forks do not differ in the content alone: %+v, %+v", x, y)
		}
		fs := a.clone()
		copyFile(t, b.fs, fs, disk.SegmentName(a.entries[31].Address.Segment))
		a.wantLost(t, fs, 31)
	})
	t.Run("of an earlier time", func(t *testing.T) {
		// The second segment as it was before its blocks were written: a
		// device that lost its writes.
		fs := v.clone()
		name := disk.SegmentName(v.segments[1])
		size := int64(len(readWhole(t, fs, name)))
		writeBytes(t, fs, name, disk.PageBytes, make([]byte, size-disk.PageBytes))
		v.wantLost(t, fs, 6, 7)
	})
}

func TestFaultOtherStoresSegment(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*privateOptions)
	}{
		{"other uuid", func(p *privateOptions) { p.uuid[0] ^= 1 }},
		{"other secret", func(p *privateOptions) { p.secret[0] ^= 1 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := otherStore(t, func(*privateOptions) {}, 0)
			b := otherStore(t, c.edit, 1)
			x := a.entries[41]
			if y := b.entries[41]; x.Address != y.Address || x.Seq != y.Seq {
				t.Fatalf("the stores do not put at the same place: %+v, %+v", x, y)
			}
			fs := a.clone()
			copyFile(t, b.fs, fs, disk.SegmentName(x.Address.Segment))
			a.wantLost(t, fs, 41, 42)
		})
	}
}

// otherStore makes a store from scratch with two blocks.
func otherStore(t *testing.T, edit func(*privateOptions), variant int) *victimStore {
	t.Helper()
	v := &victimStore{fs: vfs.NewMem(), entries: map[int]index.Entry{}}
	o := victimOptions(v.fs)
	edit(&o.private)
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	v.put(t, n, victimBlock{41, 41, variant, 9000}, victimBlock{42, 42, variant, 9000})
	mustFlush(t, s)
	for _, b := range v.blocks {
		v.entries[b.id] = v.locate(t, s, n, b.id)
	}
	mustClose(t, s)
	v.setBaseline(t)
	return v
}

// TestFaultSegmentCut cuts each segment at every page: what lies before the cut is
// served, the rest is lost with a word, and the store opens.
func TestFaultSegmentCut(t *testing.T) {
	v := newVictim(t)
	for _, segment := range v.segments {
		name := disk.SegmentName(segment)
		size := int64(len(readWhole(t, v.fs, name)))
		step := int64(1)
		if testing.Short() {
			step = 5
		}
		for pages := int64(0); pages*disk.PageBytes < size; pages += step {
			for _, odd := range []int64{0, 100} {
				at := pages*disk.PageBytes + odd
				if ok := t.Run(fmt.Sprintf("%s at %d", name, at), func(t *testing.T) { v.cut(t, name, segment, at) }); !ok {
					break
				}
			}
		}
	}
}

func (v *victimStore) cut(t *testing.T, name string, segment uint64, at int64) {
	t.Helper()
	fs := v.clone()
	f, err := fs.Open(name, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(at); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	var lost []int
	for id, e := range v.entries {
		// With the header page the whole segment goes, aliases too.
		whole := at < disk.PageBytes && e.Home().Address.Segment == segment
		if whole || e.Address.Segment == segment && e.Address.Offset()+e.Bytes() > at {
			lost = append(lost, id)
		}
	}
	v.wantLost(t, fs, lost...)
}

func TestFaultSegmentRemoved(t *testing.T) {
	v := newVictim(t)
	for i, lost := range [][]int{{1, 2, 3, 4, 5, 8}, {6, 7, 8}} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			fs := v.clone()
			if err := fs.Remove(disk.SegmentName(v.segments[i])); err != nil {
				t.Fatal(err)
			}
			v.wantPutAgain(t, fs.CrashClone(vfs.CrashOptions{KeepAll: true}), lost)
			v.wantLost(t, fs, lost...)
		})
	}
	t.Run("sidecars", func(t *testing.T) {
		fs := v.clone()
		for _, id := range v.segments {
			if err := fs.Remove(disk.SidecarName(id)); err != nil {
				t.Fatal(err)
			}
		}
		vd := v.examine(fs)
		if lost := vd.lost(); len(lost) > 0 || len(vd.wrong) > 0 {
			t.Fatalf("lost %v, %q", lost, vd.wrong)
		}
	})
}

// wantPutAgain: what is a miss can be stored again.
func (v *victimStore) wantPutAgain(t *testing.T, fs *vfs.Mem, lost []int) {
	t.Helper()
	s := mustOpen(t, victimOptions(fs))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	for _, b := range v.blocks {
		p := blockOf(b.content, b.variant, b.size)
		p.Hash = hashOf(b.id)
		if r := mustPut(t, n, p); r.Existed != !subset([]int{b.id}, lost) {
			t.Errorf("put of block %d: existed %v, lost are %v", b.id, r.Existed, lost)
		}
		if got, r := readVictim(n, b); r.Status != StatusOK || string(got) != string(b.want()) {
			t.Errorf("block %d after it was put again: %v %v", b.id, r.Status, r.Err)
		}
	}
}
