package engine

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/wal"
)

// goldenStores holds a store of each format, see docs/format/compatibility.md.
const goldenStores = "testdata/stores"

var goldenStore = flag.String("golden-store", "", "make a golden store of this name")

// goldenFormats are the versions that a store of this build has.
func goldenFormats() map[string]int {
	return map[string]int{
		"metadata": meta.FormatVersion, "segments": disk.FormatVersion, "log": wal.FormatVersion,
		"layout": layout.FormatVersion, "pebble": int(index.FormatVersion), "index records": index.RecordVersion,
	}
}

// goldenList is what a golden store holds.
type goldenList struct {
	Formats map[string]int `json:"formats"`
	Blocks  []goldenBlock  `json:"blocks"`
	Gone    []goldenBlock  `json:"gone"` // must never be served
}

type goldenBlock struct {
	Namespace string `json:"namespace"` // tenant
	Hash      string `json:"hash"`
	Bytes     int    `json:"bytes"`
	SHA256    string `json:"sha256"`
}

func goldenOptions(fs vfs.FS) Options {
	o := victimOptions(fs)
	o.SegmentBytes = 256 * kib
	return o
}

// TestGoldenStoreMake makes a golden store of this build, when asked to: all
// that a store can hold, left by a process that was killed.
func TestGoldenStoreMake(t *testing.T) {
	if *goldenStore == "" {
		return
	}
	g := &goldenMaker{t: t, fs: vfs.NewMem(), list: goldenList{Formats: goldenFormats()}}
	g.make()
	p, err := json.MarshalIndent(g.list, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(goldenStores, *goldenStore)
	if err := errors.Join(os.MkdirAll(goldenStores, 0o755), os.WriteFile(name+".json", append(p, '\n'), 0o644),
		os.WriteFile(name+".tar.gz", packTree(t, g.fs), 0o644)); err != nil {
		t.Fatal(err)
	}
}

type goldenMaker struct {
	t    *testing.T
	fs   *vfs.Mem
	s    *Store
	list goldenList
}

func (g *goldenMaker) open(tenant string, c Compression) *Namespace {
	g.t.Helper()
	n, err := g.s.Namespace(context.Background(), testLayout(), tenant, NamespaceOptions{Compression: c})
	if err != nil {
		g.t.Fatal(err)
	}
	return n
}

func (g *goldenMaker) put(n *Namespace, id, content, size int) goldenBlock {
	g.t.Helper()
	p := bytes.Repeat(contentOf(content, 0, 512), size/512+1)[:size] // compresses
	cut := size / 3
	mustPut(g.t, n, PutBlock{Hash: hashOf(id), Planes: []PlaneData{{Name: "k", Spans: [][]byte{p[:cut]}}, {Name: "v", Spans: [][]byte{p[cut:]}}}})
	sum := sha256.Sum256(p)
	return goldenBlock{Namespace: n.Info().Tenant, Hash: hex.EncodeToString(hashOf(id)), Bytes: size, SHA256: hex.EncodeToString(sum[:])}
}

func (g *goldenMaker) keep(b goldenBlock) { g.list.Blocks = append(g.list.Blocks, b) }
func (g *goldenMaker) lose(b goldenBlock) { g.list.Gone = append(g.list.Gone, b) }

func (g *goldenMaker) drop(n *Namespace, id int) {
	g.t.Helper()
	if r := n.Drop(context.Background(), [][]byte{hashOf(id)})[0]; r.Status != StatusOK {
		g.t.Fatalf("drop: %v", r.Err)
	}
}

func (g *goldenMaker) make() {
	g.s = mustOpen(g.t, goldenOptions(g.fs))
	plain, s2, zstd := g.open("plain", CompressionOff), g.open("s2", CompressionS2), g.open("zstd", CompressionZstd)
	g.lose(g.put(plain, 40, 40, 3000))
	plain, err := plain.BumpEpoch(context.Background())
	if err != nil {
		g.t.Fatal(err)
	}
	for i, size := range []int{3, 4096, 70000} {
		g.keep(g.put(plain, i, i, size))
		g.keep(g.put(s2, i, 10+i, size))
		g.keep(g.put(zstd, i, 20+i, size))
	}
	mustFlush(g.t, g.s)
	g.keep(g.put(plain, 3, 2, 70000)) // shares the bytes of 2
	g.lose(g.put(plain, 41, 41, 5000))
	g.lose(g.put(plain, 42, 42, 5000))
	mustFlush(g.t, g.s)
	g.drop(plain, 41)
	found, err := g.s.lookup(context.Background(), []index.Key{{Namespace: plain.info.Number, Hash: string(hashOf(42))}}, false)
	if err != nil || !found[0].ok {
		g.t.Fatalf("%v, %v", found, err)
	}
	g.s.quarantine(index.Key{Namespace: plain.info.Number, Hash: string(hashOf(42))}, found[0].entry, "made for the golden store")
	mustFlush(g.t, g.s)
	mustClose(g.t, g.s) // the next Open seals the segment
	g.s = mustOpen(g.t, goldenOptions(g.fs))
	plain, zstd = g.open("plain", CompressionOff), g.open("zstd", CompressionZstd)
	g.keep(g.put(plain, 5, 5, 9000))
	mustFlush(g.t, g.s)
	g.keep(g.put(zstd, 6, 6, 20000)) // durable, and not in the index
	g.s.syncOnce()
	g.keep(g.put(plain, 7, 7, 4000)) // only written
	killed := g.fs.CrashClone(killed)
	mustClose(g.t, g.s)
	g.fs = killed
	tearLog(g.t, g.fs)
}

// tearLog leaves behind the log's end what a group that was cut off leaves.
func tearLog(t *testing.T, fs *vfs.Mem) {
	t.Helper()
	logs := filesUnder(t, fs, logDir, ".wal")
	name := logs[len(logs)-1]
	p := readWhole(t, fs, name)
	end := len(bytes.TrimRight(p, "\x00"))
	patch(t, fs, name, int64(end+7)&^7, func(p []byte) { copy(p, "torn off") }, 8)
}

func packTree(t *testing.T, fs vfs.FS) []byte {
	t.Helper()
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(z)
	files := treeOf(t, fs, ".")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		content := files[name]
		err := w.WriteHeader(&tar.Header{Name: strings.TrimPrefix(name, "./"), Mode: 0o600, Size: int64(len(content))})
		if err == nil {
			_, err = io.WriteString(w, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func unpackTree(t *testing.T, name string) *vfs.Mem {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	fs := vfs.NewMem()
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return fs.CrashClone(killed)
		}
		if err != nil {
			t.Fatal(err)
		}
		p, err := io.ReadAll(r)
		if err == nil && strings.Contains(h.Name, "/") {
			err = fs.MkdirAll(filepath.ToSlash(filepath.Dir(h.Name)))
		}
		if err != nil {
			t.Fatal(err)
		}
		writeFileTo(t, fs, h.Name, string(p))
	}
}

// goldenLists reads the lists of all golden stores, by the name of the store.
func goldenLists(t *testing.T) map[string]goldenList {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(goldenStores, "*.json"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no golden stores: %v", err)
	}
	out := map[string]goldenList{}
	for _, name := range names {
		p, err := os.ReadFile(name)
		var g goldenList
		if err == nil {
			err = json.Unmarshal(p, &g)
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		out[strings.TrimSuffix(name, ".json")] = g
	}
	return out
}

// TestGoldenStores: a store of each format opens, is sound, serves every block
// and takes a new one; also with its index lost, rebuilt or repaired.
func TestGoldenStores(t *testing.T) {
	for name, g := range goldenLists(t) {
		for how, prepare := range map[string]func(fs *vfs.Mem){
			"as it is":   func(*vfs.Mem) {},
			"index lost": func(fs *vfs.Mem) { removeAll(t, fs, indexDir) },
			"rebuilt":    func(fs *vfs.Mem) { mustRebuild(t, fs, goldenOptions(nil)) },
			"repaired":   func(fs *vfs.Mem) { mustRepair(t, fs, goldenOptions(nil)) },
		} {
			t.Run(filepath.Base(name)+", "+how, func(t *testing.T) {
				fs := unpackTree(t, name+".tar.gz")
				wantClean(t, fs)
				prepare(fs)
				s := mustOpen(t, goldenOptions(fs))
				checkGolden(t, s, g)
				mustPut(t, mustSpace(t, s), blockOf(77, 0, 6000))
				mustClose(t, s)
				wantClean(t, fs)
				s = mustOpen(t, goldenOptions(fs))
				checkGolden(t, s, g)
				wantBlock(t, mustSpace(t, s), 77, 0, 6000)
				mustClose(t, s)
			})
		}
	}
}

func checkGolden(t *testing.T, s *Store, g goldenList) {
	t.Helper()
	for i, b := range slices.Concat(g.Blocks, g.Gone) {
		n, err := s.Namespace(context.Background(), testLayout(), b.Namespace, NamespaceOptions{RequireMatch: true})
		if err != nil {
			t.Fatal(err)
		}
		hash, err := hex.DecodeString(b.Hash)
		if err != nil {
			t.Fatal(err)
		}
		p := make([]byte, b.Bytes)
		cut := b.Bytes / 3
		r := n.Get(context.Background(), []GetBlock{{Hash: hash, Parts: []Part{
			{Plane: "k", Spans: [][]byte{p[:cut]}}, {Plane: "v", Spans: [][]byte{p[cut:]}},
		}}}, GetOptions{})[0]
		sum := sha256.Sum256(p)
		switch gone := i >= len(g.Blocks); {
		case gone && r.Status == StatusOK:
			t.Errorf("block %s of %s is back", b.Hash, b.Namespace)
		case !gone && (r.Status != StatusOK || hex.EncodeToString(sum[:]) != b.SHA256):
			t.Errorf("block %s of %s: %v %v, sum %x", b.Hash, b.Namespace, r.Status, r.Err, sum)
		}
	}
}

// TestGoldenStoreCurrent: there is a golden store of the formats that this
// build writes. Where a version was changed a new one is to be added, and the
// old ones stay.
func TestGoldenStoreCurrent(t *testing.T) {
	for _, g := range goldenLists(t) {
		if maps.Equal(g.Formats, goldenFormats()) {
			return
		}
	}
	t.Errorf("no store in %s has the formats %v: make one with -run TestGoldenStoreMake -args -golden-store NAME", goldenStores, goldenFormats())
}
