package engine

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/vfs"
)

// TestBadPuts: each has its status and a reason, and nothing becomes visible.
func TestBadPuts(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	l := testLayout()
	l.Planes[1].SizeBytes = 1000 // v is of fixed size
	n := spaceOf(t, s, l, "tenant")
	k, v := contentOf(0, 0, 500), contentOf(0, 1, 1000)
	planes := func(ps ...PlaneData) []PlaneData { return ps }
	pk, pv := PlaneData{Name: "k", Spans: [][]byte{k}}, PlaneData{Name: "v", Spans: [][]byte{v}}
	good := planes(pk, pv)
	for _, c := range []struct {
		name string
		b    PutBlock
		want Status
		says string
	}{
		{"hash too short", PutBlock{Hash: make([]byte, MinHashBytes-1), Planes: good}, StatusInvalid, "16 to 64"},
		{"hash too long", PutBlock{Hash: make([]byte, MaxHashBytes+1), Planes: good}, StatusInvalid, "16 to 64"},
		{"no hash", PutBlock{Planes: good}, StatusInvalid, "16 to 64"},
		{"parent too short", PutBlock{Hash: hashOf(1), Parent: make([]byte, 3), Planes: good}, StatusInvalid, "16 to 64"},
		{"no planes", PutBlock{Hash: hashOf(1)}, StatusLayoutMismatch, "planes"},
		{"a plane missing", PutBlock{Hash: hashOf(1), Planes: planes(pv)}, StatusLayoutMismatch, "planes"},
		{"a plane too many", PutBlock{Hash: hashOf(1), Planes: planes(pk, pv, pk)}, StatusLayoutMismatch, "planes"},
		{"a plane twice", PutBlock{Hash: hashOf(1), Planes: planes(pv, pv)}, StatusLayoutMismatch, "twice"},
		{"an unknown plane", PutBlock{Hash: hashOf(1), Planes: planes(PlaneData{Name: "q", Spans: pk.Spans}, pv)}, StatusLayoutMismatch, `"q"`},
		{"0 bytes", PutBlock{Hash: hashOf(1), Planes: planes(PlaneData{Name: "k"}, pv)}, StatusInvalid, "empty"},
		{"0 bytes in spans", PutBlock{Hash: hashOf(1), Planes: planes(PlaneData{Name: "k", Spans: [][]byte{nil, {}}}, pv)}, StatusInvalid, "empty"},
		{"plane too short", PutBlock{Hash: hashOf(1), Planes: planes(pk, PlaneData{Name: "v", Spans: [][]byte{v[1:]}})}, StatusLengthMismatch, "1000"},
		{"plane too long", PutBlock{Hash: hashOf(1), Planes: planes(pk, PlaneData{Name: "v", Spans: [][]byte{v, v[:1]}})}, StatusLengthMismatch, "1000"},
		{"block over the limit", PutBlock{Hash: hashOf(1), Planes: planes(PlaneData{Name: "k", Spans: [][]byte{make([]byte, 64*kib)}}, pv)}, StatusTooLarge, "MaxBlockBytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := putOne(n, c.b)
			var be *BlockError
			if r.Status != c.want || !errors.As(r.Err, &be) || be.Status != c.want || !strings.Contains(r.Err.Error(), c.says) {
				t.Errorf("%v: %v, want %v", r.Status, r.Err, c.want)
			}
		})
	}
	if st := s.Stats(); st.PutBlocks != 0 || st.WrittenBytes != 0 {
		t.Errorf("%d blocks, %d bytes were written", st.PutBlocks, st.WrittenBytes)
	}
	// Beside a bad block a good one is stored.
	rs := n.Put(context.Background(), []PutBlock{{Hash: hashOf(2), Planes: good}, {Hash: nil, Planes: good}}, PutOptions{})
	if rs[0].Status != StatusOK || rs[1].Status != StatusInvalid {
		t.Errorf("%v %v", rs[0], rs[1])
	}
	if rs := n.Put(context.Background(), nil, PutOptions{}); len(rs) != 0 {
		t.Errorf("no blocks, %d results", len(rs))
	}
	wantNoBuffers(t, s)
}

// TestBadHashes: what else takes hashes.
func TestBadHashes(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	mustPut(t, n, blockOf(0, 0, 500))
	ctx := context.Background()
	for _, h := range [][]byte{nil, make([]byte, MinHashBytes-1), make([]byte, MaxHashBytes+1)} {
		if _, err := n.Match(ctx, [][]byte{hashOf(0), h}); !errors.Is(err, ErrInvalid) {
			t.Errorf("match: %v", err)
		}
		hashes := [][]byte{hashOf(0), h}
		if st := n.Has(ctx, hashes); st[0] != StatusOK || st[1] != StatusInvalid {
			t.Errorf("has: %v", st)
		}
		if st := n.Touch(ctx, hashes); st[0] != StatusOK || st[1] != StatusInvalid {
			t.Errorf("touch: %v", st)
		}
		if r := n.Drop(ctx, [][]byte{h})[0]; r.Status != StatusInvalid || r.Err == nil {
			t.Errorf("drop: %v %v", r.Status, r.Err)
		}
		p, b := getParts(0, 500)
		b.Hash = h
		if r := n.Get(ctx, []GetBlock{b}, GetOptions{})[0]; r.Status != StatusInvalid || r.Err == nil || !untouched(p) {
			t.Errorf("get: %v %v", r.Status, r.Err)
		}
	}
	wantBlock(t, n, 0, 0, 500)
}

// TestBadLayouts: a field left out is named, and no namespace is made.
func TestBadLayouts(t *testing.T) {
	s := mustOpen(t, testOptions(vfs.NewMem()))
	defer mustClose(t, s)
	for _, c := range []struct {
		says   string
		change func(*Layout)
	}{
		{"model", func(l *Layout) { l.Model = "" }},
		{"weights_digest", func(l *Layout) { l.WeightsDigest = "" }},
		{"hybrid_kv_manager", func(l *Layout) { l.HybridKVManager = "" }},
		{"tp", func(l *Layout) { l.TP = layout.Parallel{} }},
		{"planes", func(l *Layout) { l.Planes = nil }},
		{"hash", func(l *Layout) { l.Hash.Root = "" }},
		{"planes", func(l *Layout) { l.Planes[0].SizeBytes = -1 }},
	} {
		l := testLayout()
		c.change(&l)
		_, err := s.Namespace(context.Background(), l, "tenant", NamespaceOptions{})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.says, err)
		}
	}
	for _, tenant := range []string{strings.Repeat("x", meta.MaxTenantBytes+1), "a\x00b", "\xff"} {
		if _, err := s.Namespace(context.Background(), testLayout(), tenant, NamespaceOptions{}); err == nil {
			t.Errorf("tenant %.20q: no error", tenant)
		}
	}
	if got := s.meta.Namespaces(); len(got) != 0 {
		t.Errorf("%d namespaces were made", len(got))
	}
}

// TestReadOnlyStore: gets are answered, everything that writes is refused,
// and no byte of the directory changes.
func TestReadOnlyStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	o := dirOptions()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	mustPut(t, mustSpace(t, s), blockOf(0, 0, raceSize))
	mustClose(t, s)
	before := snapshot(t, dir)
	o.ReadOnly = true
	s, err = Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	n := mustSpace(t, s)
	ctx := context.Background()
	if r := putOne(n, blockOf(1, 0, 500)); r.Status != StatusShed || !errors.Is(r.Err, ErrReadOnly) {
		t.Errorf("put: %v %v", r.Status, r.Err)
	}
	if r := dropOne(n, 0); r.Status != StatusShed || !errors.Is(r.Err, ErrReadOnly) {
		t.Errorf("drop: %v %v", r.Status, r.Err)
	}
	_, bumpErr := n.BumpEpoch(ctx)
	_, evictErr := s.EvictOnce(ctx)
	_, spaceErr := s.Namespace(ctx, testLayout(), "another", NamespaceOptions{})
	for call, err := range map[string]error{"bump": bumpErr, "evict": evictErr, "namespace": spaceErr} {
		if !errors.Is(err, ErrReadOnly) {
			t.Errorf("%s: %v", call, err)
		}
	}
	if h := s.Health(); h.State != HealthReadOnly {
		t.Errorf("health %+v", h)
	}
	wantBlock(t, n, 0, 0, raceSize)
	mustMatch(t, n, 0).Release()
	mustFlush(t, s)
	mustClose(t, s)
	delete(before, filepath.Join(dir, "LOCK"))
	after := snapshot(t, dir)
	delete(after, filepath.Join(dir, "LOCK"))
	for path, content := range after {
		if old, ok := before[path]; !ok || old != content {
			t.Errorf("%s was changed", path)
		}
	}
	if len(after) != len(before) {
		t.Errorf("%d names, %d before", len(after), len(before))
	}
}

// TestReadOnlyWithoutStore makes nothing.
func TestReadOnlyWithoutStore(t *testing.T) {
	parent := t.TempDir()
	o := dirOptions()
	o.ReadOnly = true
	if _, err := Open(filepath.Join(parent, "store"), o); !errors.Is(err, ErrNoStore) || !errors.Is(err, iofs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
	dir := filepath.Join(parent, "empty")
	mustDo(t, os.Mkdir(dir, 0o700))
	if _, err := Open(dir, o); !errors.Is(err, ErrNoStore) {
		t.Errorf("empty directory: %v", err)
	}
}

// TestSecondOpener: another process that has the store open is named, and
// after its end the store opens.
func TestSecondOpener(t *testing.T) {
	const env = "SEALSTONE_TEST_OWNER_DIR"
	if dir := os.Getenv(env); dir != "" {
		ownUntilKilled(dir)
	}
	dir := filepath.Join(t.TempDir(), "store")
	child := exec.Command(os.Args[0], "-test.run=^TestSecondOpener$")
	child.Env = append(os.Environ(), env+"="+dir)
	out, err := child.StdoutPipe()
	mustDo(t, err, child.Start())
	defer child.Wait()
	defer child.Process.Kill()
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "open\n" {
		t.Fatalf("child: %q %v", line, err)
	}
	_, err = Open(dir, dirOptions())
	var locked *meta.LockedError
	if !errors.Is(err, ErrLocked) || !errors.As(err, &locked) || locked.Owner == nil {
		t.Fatalf("error %v", err)
	}
	if pid := fmt.Sprint(child.Process.Pid); !strings.Contains(err.Error(), pid) || !strings.Contains(err.Error(), dir) {
		t.Errorf("does not name process %s and %s: %v", pid, dir, err)
	}
	o := dirOptions()
	o.ReadOnly = true
	if _, err := Open(dir, o); !errors.Is(err, ErrLocked) {
		t.Errorf("read-only: %v", err)
	}
	mustDo(t, child.Process.Kill())
	_ = child.Wait()
	s, err := Open(dir, dirOptions())
	if err != nil {
		t.Fatalf("after the owner's end: %v", err)
	}
	defer mustClose(t, s)
	wantBlock(t, mustSpace(t, s), 0, 0, 5000)
}

// ownUntilKilled is the child process.
func ownUntilKilled(dir string) {
	s, err := Open(dir, dirOptions())
	if err == nil {
		var n *Namespace
		if n, err = s.Namespace(context.Background(), testLayout(), "tenant", NamespaceOptions{}); err == nil {
			err = putOne(n, blockOf(0, 0, 5000)).Err
		}
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("open")
	select {}
}
