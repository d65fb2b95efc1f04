package engine

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// TestFieldOneOfEight: a failed transfer was counted as done, for the whole
// batch (case 5). Here block 3 of 8 fails in every way, and alone: its
// destination keeps what it held, the others are served.
func TestFieldOneOfEight(t *testing.T) {
	const victim = 3
	for name, fail := range map[string]struct {
		want Status
		harm func(s *Store, n *Namespace, r *faultyRange)
	}{
		"the device fails": {StatusIOError, func(_ *Store, _ *Namespace, r *faultyRange) { r.err = syscall.EIO }},
		"bytes are wrong":  {StatusCorrupt, func(_ *Store, _ *Namespace, r *faultyRange) { r.flip = true }},
		"it was dropped": {StatusMiss, func(_ *Store, n *Namespace, _ *faultyRange) {
			mustDrop(t, n, victim)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := &faultyRange{}
			s := mustOpen(t, testOptions(r.over(vfs.NewMem())))
			defer mustClose(t, s)
			n := mustSpace(t, s)
			for id := range 8 {
				putPages(t, n, id, fieldBytes)
			}
			mustFlush(t, s)
			e := entryOf(t, s, n, victim)
			r.file = disk.SegmentName(e.Address.Segment)
			r.from = int64(e.Address.Page) * disk.PageBytes
			r.to, r.flipAt = r.from+e.Bytes(), r.from+disk.PageBytes
			fail.harm(s, n, r)
			var blocks []GetBlock
			dest := make([][]byte, 8)
			for id := range dest {
				dest[id] = bytes.Repeat([]byte{0xa5}, fieldBytes)
				blocks = append(blocks, wholeOf(id, dest[id]))
			}
			for id, got := range n.Get(context.Background(), blocks, GetOptions{}) {
				want, content := StatusOK, contentOf(id, 0, fieldBytes)
				if id == victim {
					want, content = fail.want, bytes.Repeat([]byte{0xa5}, fieldBytes)
				}
				if got.Status != want {
					t.Errorf("block %d: %v %v, want %v", id, got.Status, got.Err, want)
				}
				if !bytes.Equal(dest[id], content) {
					t.Errorf("block %d, %v: the destination holds other bytes than it must", id, got.Status)
				}
			}
		})
	}
}

// faultyRange is a part of a file that fails or comes back wrong.
type faultyRange struct {
	file     string
	from, to int64
	err      error
	flip     bool
	flipAt   int64
}

func (r *faultyRange) over(fs vfs.FS) vfs.FS {
	hooked := vfs.WithHook(fs, func(op vfs.Op) error {
		if op.Kind == vfs.OpRead && op.Name == r.file && op.Offset < r.to && op.Offset+op.Length > r.from {
			return r.err
		}
		return nil
	})
	return vfs.WithReadFilter(hooked, func(name string, off int64, p []byte) {
		if at := r.flipAt - off; r.flip && name == r.file && at >= 0 && at < int64(len(p)) {
			p[at] ^= 0x10
		}
	})
}

// TestFieldLayoutFields: a key that misses a dimension serves another model's,
// precision's or rank's bytes (cases 15, 16, 17 and 19). Here a layout that
// differs in any one field finds nothing.
func TestFieldLayoutFields(t *testing.T) {
	base := testLayout()
	base.TP = layout.Parallel{Size: 2}
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := spaceOf(t, s, base, "tenant")
	for id := range 8 {
		mustPut(t, n, blockOf(id, 0, fieldBytes))
	}
	mustFlush(t, s)
	for field, change := range map[string]func(*Layout){
		"model":             func(l *Layout) { l.Model = "other" },
		"weights_digest":    func(l *Layout) { l.WeightsDigest = "sha256:00" },
		"dtype":             func(l *Layout) { l.DType = "fp8" },
		"kv_layout":         func(l *Layout) { l.KVLayout = layout.HND },
		"tokens_per_block":  func(l *Layout) { l.TokensPerBlock = 32 },
		"layers":            func(l *Layout) { l.Layers = 2 },
		"kv_heads":          func(l *Layout) { l.KVHeads = 2 },
		"head_size":         func(l *Layout) { l.HeadSize = 64 },
		"tp size":           func(l *Layout) { l.TP.Size = 4 },
		"tp rank":           func(l *Layout) { l.TP.Rank = 1 },
		"pp":                func(l *Layout) { l.PP = layout.Parallel{Size: 2} },
		"cp":                func(l *Layout) { l.CP = layout.Parallel{Size: 2} },
		"rope":              func(l *Layout) { l.RoPE = "yarn" },
		"attention":         func(l *Layout) { l.Attention = "mla" },
		"adapter_digest":    func(l *Layout) { l.AdapterDigest = "sha256:01" },
		"quantisation":      func(l *Layout) { l.Quantisation = layout.Quantisation{Scheme: "fp8", ScaleMode: "per-head"} },
		"hybrid_kv_manager": func(l *Layout) { l.HybridKVManager = layout.On },
		"engine":            func(l *Layout) { l.EngineName = "other" },
		"layout_version":    func(l *Layout) { l.LayoutVersion = "2" },
		"hash.algorithm":    func(l *Layout) { l.Hash.Algorithm = "blake3" },
		"hash.root":         func(l *Layout) { l.Hash.Root = "00ff" },
		"extra":             func(l *Layout) { l.Extra = map[string]string{"a": "b"} },
	} {
		l := base.Clone()
		change(&l)
		other := spaceOf(t, s, l, "tenant")
		if other.Info().Number == n.Info().Number {
			t.Errorf("%s does not count", field)
		}
		for id := range 8 {
			wantStatus(t, other, id, fieldBytes, StatusMiss)
		}
		if field != "model" && len(other.Differences()) == 0 {
			t.Errorf("%s: near to a stored layout, and no difference is told", field)
		}
	}
	for id := range 8 {
		wantBlock(t, n, id, 0, fieldBytes)
	}
}

// TestFieldCutAnywhere: a restored file was rejected after its first bytes had
// been written over the live ones (case 41). Here the segment is cut at every
// page of a block, and the destination keeps what it held.
func TestFieldCutAnywhere(t *testing.T) {
	const size = 50_000
	fs := vfs.NewMem()
	s := mustOpen(t, testOptions(fs))
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, size))
	mustFlush(t, s)
	e := entryOf(t, s, n, 0)
	mustClose(t, s)
	file := disk.SegmentName(e.Address.Segment)
	for page := range e.Bytes() / disk.PageBytes {
		clone := fs.CrashClone(vfs.CrashOptions{KeepAll: true})
		f, err := clone.Open(file, vfs.ReadWrite)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate((int64(e.Address.Page) + page) * disk.PageBytes); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		s := mustOpen(t, testOptions(clone))
		if _, r := getBlock(t, mustSpace(t, s), 0, size); r.Status == StatusOK { // looks at the destination too
			t.Errorf("cut at page %d of it, and the block is OK", page)
		}
		mustClose(t, s)
	}
}

// TestFieldOddMemory: only the length was checked for O_DIRECT, and each put
// failed on memory that was not aligned (case 23). Here memory may lie
// anywhere and lengths may be any, by every path.
func TestFieldOddMemory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	proven := openReal(t, dir, measuredOptions())
	id := 0
	for _, path := range proven.Paths {
		o := measuredOptions()
		o.Path = PathChoice(path.Name)
		s, err := Open(dir, o)
		if err != nil {
			t.Logf("%s: %v", path.Name, err)
			continue
		}
		n := mustSpace(t, s)
		memory := make([]byte, 32*kib)
		for _, offset := range []int{0, 1, 64, 512} {
			for _, size := range []int{4096, 3 * 4096, 3*4096 - 1, 3*4096 + 1, 512, 3} {
				id++
				name := fmt.Sprintf("%s, memory at %d, %d bytes", path.Name, offset, size)
				p := memory[offset : offset+size]
				copy(p, contentOf(id, 0, size))
				r := putOne(n, PutBlock{Hash: hashOf(id), Planes: []PlaneData{
					{Name: "k", Spans: [][]byte{p[:pageCut(size)]}}, {Name: "v", Spans: [][]byte{p[pageCut(size):]}},
				}})
				if r.Status != StatusOK {
					t.Errorf("%s: put: %v %v", name, r.Status, r.Err)
				}
				clear(memory)
				got := n.Get(context.Background(), []GetBlock{wholeOf(id, p)}, GetOptions{})[0]
				if got.Status != StatusOK || !bytes.Equal(p, contentOf(id, 0, size)) {
					t.Errorf("%s: get: %v %v", name, got.Status, got.Err)
				}
			}
		}
		mustClose(t, s)
	}
}
