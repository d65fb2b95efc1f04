package engine

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
)

// dirOptions is a small store in a real directory.
func dirOptions() Options {
	o := testOptions(nil)
	o.private.fs = nil
	return o
}

// snapshot lists a tree with all bytes, to see that nothing was changed.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d iofs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.Type()&iofs.ModeSymlink != 0:
			out[path], err = os.Readlink(path)
		case !d.IsDir():
			var b []byte
			b, err = os.ReadFile(path)
			out[path] = string(b)
		default:
			out[path] = "dir"
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func wantUnchanged(t *testing.T, dir string, before map[string]string) {
	t.Helper()
	after := snapshot(t, dir)
	for path, content := range before {
		if after[path] != content {
			t.Errorf("%s was changed", path)
		}
	}
	for path := range after {
		if _, ok := before[path]; !ok {
			t.Errorf("%s was made", path)
		}
	}
}

// TestOpenBadDirectory: what stands where a store should be. The error says
// what is wrong with which path, and nothing is touched.
func TestOpenBadDirectory(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(t *testing.T, dir string)
		want error
		says string
	}{
		{"parent is missing", func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Dir(dir)); err != nil {
				t.Fatal(err)
			}
		}, iofs.ErrNotExist, ""},
		{"a file", func(t *testing.T, dir string) { writeFile(t, dir, "not a store") }, syscall.ENOTDIR, ""},
		{"an empty file", func(t *testing.T, dir string) { writeFile(t, dir, "") }, syscall.ENOTDIR, ""},
		{"a symbolic link to a directory", func(t *testing.T, dir string) {
			other := filepath.Join(filepath.Dir(dir), "other")
			mustDo(t, os.Mkdir(other, 0o700), os.Symlink(other, dir))
		}, vfs.ErrSymlink, ""},
		{"a symbolic link to nothing", func(t *testing.T, dir string) { mustDo(t, os.Symlink("nowhere", dir)) }, vfs.ErrSymlink, ""},
		{"other people's files", func(t *testing.T, dir string) {
			mustDo(t, os.Mkdir(dir, 0o700))
			writeFile(t, filepath.Join(dir, "thesis.tex"), "years of work")
		}, ErrInvalid, "thesis.tex"},
		{"a symbolic link in the place of STORE", func(t *testing.T, dir string) {
			mustDo(t, os.Mkdir(dir, 0o700), os.Symlink("/etc/passwd", filepath.Join(dir, meta.StoreFile)))
		}, nil, meta.StoreFile},
		{"a directory in the place of LOCK", func(t *testing.T, dir string) {
			mustDo(t, os.MkdirAll(filepath.Join(dir, "LOCK"), 0o700))
		}, nil, "LOCK"},
		{"a file in the place of segments", func(t *testing.T, dir string) {
			mustDo(t, os.Mkdir(dir, 0o700))
			writeFile(t, filepath.Join(dir, "segments"), "x")
		}, nil, "segments"},
	} {
		t.Run(c.name, func(t *testing.T) {
			parent := filepath.Join(t.TempDir(), "parent")
			mustDo(t, os.Mkdir(parent, 0o700))
			dir := filepath.Join(parent, "store")
			c.make(t, dir)
			root := filepath.Dir(parent)
			before := snapshot(t, root)
			s, err := Open(dir, dirOptions())
			if err == nil {
				mustClose(t, s)
				t.Fatal("opened")
			}
			if c.want != nil && !errors.Is(err, c.want) {
				t.Errorf("error %v, want %v", err, c.want)
			}
			if !strings.Contains(err.Error(), dir) && !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error does not say where: %v", err)
			}
			if c.want != nil {
				wantUnchanged(t, root, before)
			}
		})
	}
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	mustDo(t, os.WriteFile(path, []byte(content), 0o600))
}

func mustDo(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestOpenRefusedByFileSystem: a directory that may not be read or written.
// (Root may do all, so the file system is made to refuse.)
func TestOpenRefusedByFileSystem(t *testing.T) {
	for _, c := range []struct {
		name  string
		errno syscall.Errno
		hits  func(op vfs.Op) bool
	}{
		{"unreadable", syscall.EACCES, func(op vfs.Op) bool { return op.Kind == vfs.OpList || op.Kind == vfs.OpOpen }},
		{"read-only", syscall.EROFS, func(op vfs.Op) bool { return op.Mutates() }},
		{"full", syscall.ENOSPC, func(op vfs.Op) bool { return op.Kind == vfs.OpCreate || op.Kind == vfs.OpWrite }},
		{"failing", syscall.EIO, func(op vfs.Op) bool { return op.Kind == vfs.OpSync }},
	} {
		for _, there := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, store there %v", c.name, there), func(t *testing.T) {
				mem := vfs.NewMem()
				if there {
					s := mustOpen(t, testOptions(mem))
					mustPut(t, mustSpace(t, s), blockOf(0, 0, 5000))
					mustClose(t, s)
				}
				fs := vfs.WithHook(mem, func(op vfs.Op) error {
					if c.hits(op) {
						return &iofs.PathError{Op: op.Kind.String(), Path: "/somewhere/" + op.Name, Err: c.errno}
					}
					return nil
				})
				s, err := Open("mem", testOptions(fs))
				if err == nil {
					mustClose(t, s)
					t.Fatal("opened")
				}
				// Of what fails inside of Pebble only the text comes out.
				if !strings.Contains(err.Error(), c.errno.Error()) || !strings.Contains(err.Error(), "/somewhere/") {
					t.Errorf("error %v", err)
				}
				// Nothing is lost: with the trouble gone it opens. (In another
				// process: Pebble may have given up inside and hold its files.)
				s = mustOpen(t, testOptions(mem.CrashClone(vfs.CrashOptions{KeepAll: true})))
				defer mustClose(t, s)
				want := StatusMiss
				if there {
					want = StatusOK
				}
				wantStatus(t, mustSpace(t, s), 0, 5000, want)
			})
		}
	}
}

// TestOpenExpectations: CreateOnly and MustExist.
func TestOpenExpectations(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	must, create := dirOptions(), dirOptions()
	must.MustExist, create.CreateOnly = true, true
	if _, err := Open(dir, must); err == nil || !errors.Is(err, iofs.ErrNotExist) && !errors.Is(err, ErrNoStore) {
		t.Errorf("MustExist without a directory: %v", err)
	}
	mustDo(t, os.Mkdir(dir, 0o700))
	if _, err := Open(dir, must); !errors.Is(err, ErrNoStore) {
		t.Errorf("MustExist in an empty directory: %v", err)
	}
	s, err := Open(dir, create)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	if _, err := Open(dir, create); !errors.Is(err, meta.ErrExists) || !strings.Contains(err.Error(), dir) {
		t.Errorf("CreateOnly over a store: %v", err)
	}
	s, err = Open(dir, must)
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
}

// TestOpenBadOptions: each is refused before anything is made.
func TestOpenBadOptions(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Options)
		want   error
		says   string
	}{
		{"negative capacity", func(o *Options) { o.CapacityBytes = -1 }, ErrInvalid, "negative"},
		{"negative budget", func(o *Options) { o.WriteBudgetBytesPerDay = -1 }, ErrInvalid, "negative"},
		{"blocks over the format's limit", func(o *Options) { o.MaxBlockBytes = MaxBlockBytes + 1 }, ErrInvalid, "MaxBlockBytes"},
		{"negative blocks", func(o *Options) { o.MaxBlockBytes = -5 }, ErrInvalid, "MaxBlockBytes"},
		{"lease share", func(o *Options) { o.LeaseShare = 1.5 }, ErrInvalid, "LeaseShare"},
		{"move share", func(o *Options) { o.MoveShare = 2 }, ErrInvalid, "MoveShare"},
		{"both expectations", func(o *Options) { o.CreateOnly, o.MustExist = true, true }, ErrInvalid, "CreateOnly"},
		{"segments too small", func(o *Options) { o.SegmentBytes = 64 * kib }, ErrInvalid, "SegmentBytes"},
		{"capacity too small", func(o *Options) { o.CapacityBytes = 1 * mib }, ErrCapacity, ""},
		{"one byte", func(o *Options) { o.CapacityBytes = 1 }, ErrCapacity, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			o := testOptions(mem)
			c.change(&o)
			_, err := Open("mem", o)
			if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v", err)
			}
			if names, _ := mem.List("."); len(names) > 1 { // LOCK may be there
				t.Errorf("made %v", names)
			}
		})
	}
}

// TestCapacityNamesTheFigure: below the minimum Open says how much it takes,
// and that much is enough, for a new store as for one that is there.
func TestCapacityNamesTheFigure(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	o.CapacityBytes = 1 * mib
	need := int64(0)
	for range 8 { // parts of the reserve grow with the capacity
		_, err := Open("mem", o)
		if err == nil {
			t.Fatal("opened")
		}
		if !errors.Is(err, ErrCapacity) {
			t.Fatal(err)
		}
		at := strings.Index(err.Error(), "at least ")
		if _, scanErr := fmt.Sscanf(err.Error()[at:], "at least %d needed", &need); at < 0 || scanErr != nil {
			t.Fatalf("no figure: %v", err)
		}
		if need <= o.CapacityBytes {
			t.Fatalf("%d given, %d asked for", o.CapacityBytes, need)
		}
		o.CapacityBytes = need
		s, err := Open("mem", o)
		if err == nil {
			mustPut(t, mustSpace(t, s), blockOf(0, 0, 5000))
			mustClose(t, s)
			break
		}
	}
	o.CapacityBytes = need - 4*kib
	if _, err := Open("mem", o); !errors.Is(err, ErrCapacity) {
		t.Errorf("the store that is there, with less: %v", err)
	}
	o.CapacityBytes = need
	s := mustOpen(t, o)
	defer mustClose(t, s)
	wantBlock(t, mustSpace(t, s), 0, 0, 5000)
}

// TestNewerFormat: a store of a later version is refused and left alone.
func TestNewerFormat(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(p []byte)
	}{
		{"version", func(p []byte) { binary.LittleEndian.PutUint16(p[8:], binary.LittleEndian.Uint16(p[8:])+1) }},
		{"feature bits", func(p []byte) { p[12] |= 0x80 }},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			s := mustOpen(t, testOptions(mem))
			mustPut(t, mustSpace(t, s), blockOf(0, 0, 5000))
			mustClose(t, s)
			var old [][]byte
			for _, name := range []string{meta.StoreFile, meta.StoreCopyFile} {
				old = append(old, rewrite(t, mem, name, func(p []byte) {
					c.change(p)
					body := p[:len(p)-8]
					binary.LittleEndian.PutUint64(p[len(body):], s.key.Sum(sums.DomainStore, body))
				}))
			}
			_, err := Open("mem", testOptions(mem))
			if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), meta.StoreFile) {
				t.Fatalf("error %v", err)
			}
			for i, name := range []string{meta.StoreFile, meta.StoreCopyFile} {
				rewrite(t, mem, name, func(p []byte) { copy(p, old[i]) })
			}
			s = mustOpen(t, testOptions(mem))
			defer mustClose(t, s)
			wantBlock(t, mustSpace(t, s), 0, 0, 5000)
		})
	}
}

// rewrite changes a file and returns what it held.
func rewrite(t *testing.T, fs vfs.FS, name string, change func(p []byte)) []byte {
	t.Helper()
	f, err := fs.Open(name, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	p := make([]byte, info.SizeBytes)
	if _, err := f.ReadAt(p, 0); err != nil {
		t.Fatal(err)
	}
	old := append([]byte(nil), p...)
	change(p)
	if _, err := f.WriteAt(p, 0); err != nil {
		t.Fatal(err)
	}
	return old
}

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
	if _, err := Open(filepath.Join(parent, "store"), o); !errors.Is(err, iofs.ErrNotExist) {
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

// TestStrangeFiles beside a store are reported, counted and left alone.
func TestStrangeFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := Open(dir, dirOptions())
	mustDo(t, err)
	mustPut(t, mustSpace(t, s), blockOf(0, 0, 5000))
	mustClose(t, s)
	strange := filepath.Join(dir, "notes.txt")
	writeFile(t, strange, strings.Repeat("n", 10_000))
	for range 2 {
		s, err = Open(dir, dirOptions())
		mustDo(t, err)
		if es := eventsOf(s, EventStrangeFile); len(es) != 1 || !strings.Contains(es[0].Message, "notes.txt") {
			t.Errorf("events %v", es)
		}
		if s.strangeBytes < 10_000 {
			t.Errorf("%d bytes counted", s.strangeBytes)
		}
		wantBlock(t, mustSpace(t, s), 0, 0, 5000)
		mustClose(t, s)
	}
	if b, err := os.ReadFile(strange); err != nil || len(b) != 10_000 {
		t.Errorf("%d bytes left: %v", len(b), err)
	}
}
