package cli

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/tiers/disk"
)

// readstore runs the independent reader, which was written from docs/format
// alone and knows nothing of this code.
func readstore(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3 in PATH")
	}
	var out, errs strings.Builder
	cmd := exec.Command(python, append([]string{"../../../python/readstore.py"}, args...)...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// agree holds the independent reader to verify, block by block, and returns
// what verify found.
func agree(t *testing.T, dir string) verifyReport {
	t.Helper()
	report := filepath.Join(t.TempDir(), "verify.json")
	status, _, errs := run(t, "verify", dir, "--quiet", "--json", report)
	if status != exitOK && status != exitDamaged {
		t.Fatalf("verify: status %d: %s", status, errs)
	}
	var r verifyReport
	b, err := os.ReadFile(report)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got, out, errs := readstore(t, dir, "--compare", report); got != exitOK {
		t.Errorf("readstore: status %d\n%s%s", got, errs, out)
	}
	if got, out, errs := readstore(t, dir, "--no-blocks"); got != status {
		t.Errorf("readstore: status %d, verify has %d\n%s%s\n%v", got, status, errs, out, r.Damage)
	}
	return r
}

// richStore is an open store with something of everything, and its spaces.
type richStore struct {
	t      *testing.T
	dir    string
	s      *engine.Store
	spaces []*engine.Namespace
}

func newRichStore(t *testing.T) *richStore {
	t.Helper()
	r := &richStore{t: t, dir: filepath.Join(t.TempDir(), "store")}
	r.open()
	for _, o := range []struct {
		tenant, salt string
		compression  engine.Compression
	}{{"a", "1", engine.CompressionOff}, {"a", "2", engine.CompressionS2}, {"b", "1", engine.CompressionZstd}} {
		l := layout.Opaque("rich " + o.salt)
		l.Planes = []layout.Plane{{Name: "k"}, {Name: "v"}}
		n, err := r.s.Namespace(t.Context(), l, o.tenant, engine.NamespaceOptions{Compression: o.compression})
		if err != nil {
			t.Fatal(err)
		}
		r.spaces = append(r.spaces, n)
	}
	return r
}

func (r *richStore) open() {
	r.t.Helper()
	s, err := engine.Open(r.dir, engine.Options{CapacityBytes: 84 << 20, MaxBlockBytes: 256 << 10, SegmentBytes: 512 << 10})
	if err != nil {
		r.t.Fatal(err)
	}
	r.s = s
	r.t.Cleanup(func() { _ = s.Close(context.Background()) })
}

func (r *richStore) close() {
	r.t.Helper()
	if err := r.s.Close(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *richStore) flush() {
	r.t.Helper()
	if err := r.s.Flush(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// put stores a block of about half compressible bytes that follow from the
// content's number.
func (r *richStore) put(space, id, content int) {
	r.t.Helper()
	random := rand.New(rand.NewPCG(uint64(content), 0))
	b := make([]byte, 1+random.IntN(150_000))
	for i := range b {
		if b[i] = byte(i / 1000); i/300%2 == 0 {
			b[i] = byte(random.Uint32())
		}
	}
	cut := random.IntN(len(b) + 1)
	got := r.spaces[space].Put(r.t.Context(), []engine.PutBlock{{Hash: richHash(id), Planes: []engine.PlaneData{
		{Name: "k", Spans: [][]byte{b[:cut]}}, {Name: "v", Spans: [][]byte{b[cut:]}},
	}}}, engine.PutOptions{})[0]
	if got.Status != engine.StatusOK {
		r.t.Fatalf("put %d: %v %v", id, got.Status, got.Err)
	}
}

func richHash(id int) []byte {
	h := sha256.Sum256(fmt.Append(nil, "block", id))
	return h[:16+id%17]
}

func (r *richStore) drop(space, id int) {
	r.t.Helper()
	if got := r.spaces[space].Drop(r.t.Context(), [][]byte{richHash(id)})[0]; got.Status != engine.StatusOK {
		r.t.Fatalf("drop %d: %v %v", id, got.Status, got.Err)
	}
}

// fill puts blocks, aliases of the first ones, drops every fifth and puts some
// of these again.
func (r *richStore) fill(from, to int) {
	r.t.Helper()
	for id := from; id < to; id++ {
		r.put(id%3, id, id)
	}
	r.flush()
	for id := from; id < to; id += 4 {
		r.put(id%3, id+1000, id) // shares the bytes
	}
	for id := from; id < to; id += 5 {
		r.drop(id%3, id)
	}
	for id := from; id < to; id += 10 {
		r.put(id%3, id, id+500)
	}
}

// TestReadstoreAgrees: the reader written from the documents lists the same
// blocks at the same places with the same verdicts as verify.
func TestReadstoreAgrees(t *testing.T) {
	t.Run("empty", func(t *testing.T) {
		r := newRichStore(t)
		r.close()
		agree(t, r.dir)
	})
	t.Run("closed", func(t *testing.T) {
		r := newRichStore(t)
		r.fill(0, 24)
		r.close()
		v := agree(t, r.dir)
		if v.Blocks < 20 || v.Index.Aliases == 0 {
			t.Errorf("%d blocks, %d aliases: the test shows little", v.Blocks, v.Index.Aliases)
		}
		before, after := r.spaces[0].Info(), 0
		r.open()
		again, err := r.s.Namespace(t.Context(), r.spaces[0].Layout(), before.Tenant, engine.NamespaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := again.BumpEpoch(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.close()
		if after = int(agree(t, r.dir).Blocks); after >= int(v.Blocks) {
			t.Errorf("%d blocks, %d under the new epoch", v.Blocks, after)
		}
	})
	t.Run("killed", func(t *testing.T) {
		r := newRichStore(t)
		r.fill(0, 12)
		killed := copyOf(t, r.dir)
		agree(t, killed)
		r.flush()
		agree(t, copyOf(t, r.dir))
		tearLog(t, killed)
		agree(t, killed)
	})
	t.Run("evicted", func(t *testing.T) {
		r := newRichStore(t)
		r.fill(0, 24)
		r.flush()
		for range 2 {
			if _, err := r.s.EvictOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
			agree(t, copyOf(t, r.dir))
		}
		r.close()
		agree(t, r.dir)
	})
}

// tearLog appends what was never durable to the newest file of the log.
func tearLog(t *testing.T, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "wal", "*.wal"))
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	b, err := os.ReadFile(slices.Max(names))
	if err != nil {
		t.Fatal(err)
	}
	end := len(strings.TrimRight(string(b), "\x00"))
	copy(b[(end+7)/8*8:], "\x10\x00\x00\x00\x01\x00\x00\x00torn")
	if err := os.WriteFile(slices.Max(names), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// copyOf is the directory as a kill would leave it.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestFaultReadstore: a flipped byte of the files without an index of their
// own is found by both, and blamed on the same block, if on any.
func TestFaultReadstore(t *testing.T) {
	r := newRichStore(t)
	r.fill(0, 12)
	r.close()
	y := faulttest.New(t)
	random := rand.New(rand.NewPCG(1, 2))
	for _, pattern := range []string{"STORE", "STORE.2", "NAMESPACES", "NAMESPACES.2", "segments/*/*.seg", "segments/*/*.del"} {
		files, err := filepath.Glob(filepath.Join(r.dir, pattern))
		if err != nil || len(files) == 0 {
			t.Fatal(pattern, files, err)
		}
		tries := 1
		if os.Getenv("SEALSTONE_FULL") != "" {
			tries = 30
		}
		if strings.Contains(pattern, ".seg") && !testing.Short() {
			tries *= 4
		}
		for range tries {
			dir := copyOf(t, r.dir)
			file := filepath.Join(dir, strings.TrimPrefix(files[random.IntN(len(files))], r.dir))
			info, err := os.Stat(file)
			if err != nil {
				t.Fatal(err)
			}
			at := random.Int64N(info.Size())
			f := y.Try(fmt.Sprintf("byte %d of %s flipped", at, file[len(dir)+1:]))
			flipAt(t, file, at)
			f.Fire()
			t.Run("", func(t *testing.T) { agree(t, dir) })
			if t.Failed() {
				t.Fatalf("flipped byte %d of %s", at, file)
			}
			f.Survive()
		}
	}
}

// TestFaultReadstoreHeaders: the header of each block in turn is damaged, also
// where no footer lists it.
func TestFaultReadstoreHeaders(t *testing.T) {
	r := newRichStore(t)
	r.fill(0, 12)
	r.close()
	report := filepath.Join(t.TempDir(), "verify.json")
	run(t, "verify", r.dir, "--quiet", "--json", report)
	b, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	var all struct {
		Extents []struct {
			Role         string
			Segment      uint64
			Page         uint32
			AliasSegment uint64 `json:"alias_segment"`
			AliasPage    uint32 `json:"alias_page"`
		}
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	y := faulttest.New(t)
	seen := map[string]bool{}
	try := func(segment uint64, page uint32) {
		at := fmt.Sprintf("header at page %d of segment %d", page, segment)
		if page == 0 || seen[at] || t.Failed() || testing.Short() && len(seen) == 3 {
			return
		}
		seen[at] = true
		f := y.Try(at + " damaged")
		dir := copyOf(t, r.dir)
		flipAt(t, filepath.Join(dir, disk.SegmentName(segment)), int64(page)*disk.PageBytes+200)
		f.Fire()
		if t.Run(at, func(t *testing.T) { agree(t, dir) }) {
			f.Survive()
		}
	}
	for _, e := range all.Extents {
		if e.Role == "block" {
			try(e.AliasSegment, e.AliasPage)
			try(e.Segment, e.Page)
		}
	}
}

// TestReadstoreRefuses: what the exit statuses promise.
func TestReadstoreRefuses(t *testing.T) {
	r := newRichStore(t)
	if status, _, errs := readstore(t, r.dir); status != exitLocked {
		t.Errorf("a store in use: status %d, %s", status, errs)
	}
	r.put(0, 1, 1)
	r.close()
	report := filepath.Join(t.TempDir(), "verify.json")
	run(t, "verify", r.dir, "--quiet", "--json", report)
	r.open()
	n, err := r.s.Namespace(t.Context(), r.spaces[0].Layout(), "a", engine.NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.spaces[0] = n
	r.drop(0, 1)
	r.close()
	for _, c := range []struct {
		args   []string
		status int
	}{
		{[]string{r.dir, "--compare", report}, exitDifferent},
		{[]string{r.dir, "--compare", filepath.Join(r.dir, "STORE")}, exitError},
		{[]string{t.TempDir()}, exitError},
		{[]string{}, exitUsage},
	} {
		if status, out, errs := readstore(t, c.args...); status != c.status {
			t.Errorf("%q: status %d, want %d: %s%s", c.args, status, c.status, out, errs)
		}
	}
}
