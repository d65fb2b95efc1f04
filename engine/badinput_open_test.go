package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	iofs "io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

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
	if _, err := Open(dir, must); !errors.Is(err, ErrNoStore) || !errors.Is(err, iofs.ErrNotExist) {
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

// TestOddCapacity: a capacity need not be a whole number of anything.
func TestOddCapacity(t *testing.T) {
	for _, capacity := range []int64{300e6, 512*mib + 1, 2e9} {
		o := testOptions(vfs.NewMem())
		o.CapacityBytes = capacity
		o.private.logFileBytes, o.private.indexBytes = 0, 0 // as without tests
		s := mustOpen(t, o)
		mustPut(t, mustSpace(t, s), blockOf(0, 0, 5000))
		mustClose(t, s)
	}
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
