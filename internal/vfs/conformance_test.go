package vfs

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// implementations are what the suite runs against; each call makes a new,
// empty tree.
var implementations = []struct {
	name string
	make func(t *testing.T) FS
}{
	{"os", func(t *testing.T) FS { return newOS(t) }},
	{"os-walk", func(t *testing.T) FS { return newWalkingOS(t) }},
	{"mem", func(t *testing.T) FS { return NewMem() }},
	{"mem-clone", func(t *testing.T) FS { return NewMem().CrashClone(CrashOptions{}) }},
	{"hook-mem", func(t *testing.T) FS { return WithHook(NewMem(), allow) }},
	{"hook-os", func(t *testing.T) FS { return WithHook(newOS(t), allow) }},
	{"filter-mem", func(t *testing.T) FS { return WithReadFilter(NewMem(), func(string, int64, []byte) {}) }},
}

func allow(Op) error { return nil }

func newOS(t *testing.T) *OS {
	t.Helper()
	o, err := OpenOS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { must(t, o.Close()) })
	return o
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wantErr checks that err is want and names the file in an *fs.PathError.
func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
		return
	}
	var pe *fs.PathError
	if err != nil && err != io.EOF && !errors.As(err, &pe) {
		t.Errorf("%s: %T is no *fs.PathError", what, err)
	}
}

// put makes file name with the given content.
func put(t *testing.T, f FS, name, content string) {
	t.Helper()
	file, err := f.Open(name, Create|Trunc)
	must(t, err)
	_, err = file.WriteAt([]byte(content), 0)
	must(t, err)
	must(t, file.Close())
}

// content reads all of a file.
func content(t *testing.T, f FS, name string) string {
	t.Helper()
	file, err := f.Open(name, 0)
	must(t, err)
	defer file.Close()
	info, err := file.Stat()
	must(t, err)
	p := make([]byte, info.SizeBytes)
	n, err := file.ReadAt(p, 0)
	must(t, err)
	return string(p[:n])
}

// TestConformance runs each case against each implementation.
func TestConformance(t *testing.T) {
	cases := []struct {
		name string
		run  func(t *testing.T, f FS)
	}{
		{"open flags", testOpenFlags},
		{"names", testNames},
		{"read and write", testReadWrite},
		{"readv", testReadv},
		{"truncate", testTruncate},
		{"preallocate", testPreallocate},
		{"read only", testReadOnly},
		{"closed", testClosed},
		{"directories", testDirectories},
		{"remove", testRemove},
		{"rename", testRename},
		{"link", testLink},
		{"unlinked", testUnlinked},
		{"lock", testLock},
		{"stat", testStat},
		{"root", testRoot},
	}
	for _, impl := range implementations {
		t.Run(impl.name, func(t *testing.T) {
			for _, c := range cases {
				t.Run(c.name, func(t *testing.T) { c.run(t, impl.make(t)) })
			}
		})
	}
}

func testOpenFlags(t *testing.T, f FS) {
	must(t, f.Mkdir("dir"))
	put(t, f, "file", "old")
	for _, c := range []struct {
		name  string
		flags OpenFlag
		want  error
	}{
		{"absent", 0, fs.ErrNotExist},
		{"absent", ReadWrite, fs.ErrNotExist},
		{"absent", Trunc, fs.ErrNotExist},
		{"absent", Excl, fs.ErrNotExist},
		{"absent/file", Create, fs.ErrNotExist},
		{"file/below", Create, syscall.ENOTDIR},
		{"file/below", 0, syscall.ENOTDIR},
		{"dir", 0, ErrNotRegular},
		{"dir", ReadWrite, ErrNotRegular},
		{"dir", Create, ErrNotRegular},
		{"dir", Create | Excl, fs.ErrExist},
		{"file", Create | Excl, fs.ErrExist},
		{"file", 0, nil},
		{"file", Create, nil},
		{"new1", Create | Excl, nil},
		{"dir/new2", Create, nil},
		{"file/below/more", 0, syscall.ENOTDIR},
	} {
		file, err := f.Open(c.name, c.flags)
		wantErr(t, "Open "+c.name, err, c.want)
		if (file != nil) != (err == nil) {
			t.Errorf("Open %s, flags %d: file %v with error %v", c.name, c.flags, file, err)
		}
		if file != nil {
			must(t, file.Close())
		}
	}
	if got := content(t, f, "file"); got != "old" {
		t.Errorf("after all opens the file holds %q", got)
	}
	file, err := f.Open("file", Trunc)
	must(t, err)
	_, err = file.WriteAt([]byte("n"), 0) // Trunc implies writing
	must(t, err)
	must(t, file.Close())
	if got := content(t, f, "file"); got != "n" {
		t.Errorf("after Trunc and a write the file holds %q", got)
	}
}

func testNames(t *testing.T, f FS) {
	put(t, f, "ok", "")
	for _, name := range []string{"", "/abs", "..", "../x", "a/../b", "a/..", "./a", "a/./b", "a//b", "a/", "a\x00b"} {
		_, err := f.Open(name, Create)
		wantErr(t, "Open", err, ErrInvalidName)
		_, err = f.List(name)
		wantErr(t, "List", err, ErrInvalidName)
		_, err = f.Stat(name)
		wantErr(t, "Stat", err, ErrInvalidName)
		_, err = f.Lock(name)
		wantErr(t, "Lock", err, ErrInvalidName)
		wantErr(t, "Mkdir", f.Mkdir(name), ErrInvalidName)
		wantErr(t, "MkdirAll", f.MkdirAll(name), ErrInvalidName)
		wantErr(t, "Remove", f.Remove(name), ErrInvalidName)
		wantErr(t, "RemoveAll", f.RemoveAll(name), ErrInvalidName)
		wantErr(t, "SyncDir", f.SyncDir(name), ErrInvalidName)
		for _, two := range [][2]string{{name, "x"}, {"ok", name}} {
			wantErr(t, "Rename", f.Rename(two[0], two[1]), ErrInvalidName)
			wantErr(t, "Link", f.Link(two[0], two[1]), ErrInvalidName)
		}
	}
	if got, err := f.List("."); err != nil || !slices.Equal(got, []string{"ok"}) {
		t.Errorf("refused names left %q, %v", got, err)
	}
}

func testReadWrite(t *testing.T, f FS) {
	file, err := f.Open("f", Create)
	must(t, err)
	defer file.Close()
	const hole = 9000
	_, err = file.WriteAt([]byte("hello"), hole)
	must(t, err)
	_, err = file.WriteAt([]byte("J"), hole)
	must(t, err)
	want := append(make([]byte, hole), "Jello"...)
	for _, c := range []struct {
		off  int64
		size int
		n    int
		err  error
	}{
		{0, hole + 5, hole + 5, nil},
		{0, hole + 6, hole + 5, io.EOF},
		{hole + 2, 3, 3, nil},
		{hole + 4, 100, 1, io.EOF},
		{hole + 5, 1, 0, io.EOF},
		{hole + 500, 1, 0, io.EOF},
		{hole + 500, 0, 0, nil},
		{3, 0, 0, nil},
		{-1, 4, 0, syscall.EINVAL},
	} {
		p := bytes.Repeat([]byte{0xee}, c.size)
		n, err := file.ReadAt(p, c.off)
		if n != c.n || !errors.Is(err, c.err) || errors.Is(c.err, io.EOF) && err != io.EOF {
			t.Errorf("ReadAt(%d bytes at %d) = %d, %v, want %d, %v", c.size, c.off, n, err, c.n, c.err)
			continue
		}
		if n > 0 && !bytes.Equal(p[:n], want[c.off:c.off+int64(n)]) {
			t.Errorf("ReadAt(%d bytes at %d): other bytes", c.size, c.off)
		}
		if bytes.ContainsFunc(p[n:], func(r rune) bool { return r != 0xfffd }) {
			t.Errorf("ReadAt(%d bytes at %d) wrote past what it returned", c.size, c.off)
		}
	}
	_, err = file.WriteAt([]byte("x"), -1)
	wantErr(t, "WriteAt(-1)", err, syscall.EINVAL)
	if n, err := file.WriteAt(nil, 1<<20); n != 0 || err != nil {
		t.Errorf("empty write: %d, %v", n, err)
	}
	info, err := file.Stat()
	must(t, err)
	if info.SizeBytes != hole+5 {
		t.Errorf("size %d, want %d", info.SizeBytes, hole+5)
	}
	must(t, file.Sync())
	must(t, file.Datasync())
	must(t, file.DropCache(0, 0))
	must(t, file.StartWriteback(0, 0))
	must(t, file.StartWriteback(0, 1))
}

func testReadv(t *testing.T, f FS) {
	put(t, f, "f", "0123456789")
	file, err := f.Open("f", 0)
	must(t, err)
	defer file.Close()
	many := make([]int, 1500) // more than one call takes
	for i := range 10 {
		many[1050+i] = 1
	}
	for _, c := range []struct {
		off   int64
		sizes []int
		want  string
		err   error
	}{
		{0, []int{3, 4, 3}, "0123456789", nil},
		{2, []int{0, 1, 0, 0, 2, 0}, "234", nil},
		{5, []int{3, 4}, "56789", io.EOF},
		{5, []int{5, 1}, "56789", io.EOF},
		{10, []int{1}, "", io.EOF},
		{50, []int{1, 2}, "", io.EOF},
		{0, nil, "", nil},
		{10, []int{0, 0}, "", nil},
		{0, many, "0123456789", nil},
		{-5, []int{1}, "", syscall.EINVAL},
	} {
		bufs := make([][]byte, len(c.sizes))
		for i, size := range c.sizes {
			bufs[i] = make([]byte, size)
		}
		n, err := file.Readv(bufs, c.off)
		got := string(bytes.Join(bufs, nil)[:n])
		if got != c.want || !errors.Is(err, c.err) {
			t.Errorf("Readv(%d buffers at %d) = %q, %v, want %q, %v", len(bufs), c.off, got, err, c.want, c.err)
		}
		for i, size := range c.sizes {
			if len(bufs[i]) != size {
				t.Fatalf("Readv(%d buffers at %d) changed the caller's slices", len(bufs), c.off)
			}
		}
	}
}

func testTruncate(t *testing.T, f FS) {
	put(t, f, "f", strings.Repeat("x", 10000))
	file, err := f.Open("f", ReadWrite)
	must(t, err)
	defer file.Close()
	must(t, file.Truncate(5000))
	must(t, file.Truncate(9000))
	want := strings.Repeat("x", 5000) + strings.Repeat("\x00", 4000)
	if got := content(t, f, "f"); got != want {
		t.Error("what was cut off did not come back as zeros")
	}
	must(t, file.Truncate(0))
	if got := content(t, f, "f"); got != "" {
		t.Errorf("emptied file holds %d bytes", len(got))
	}
	must(t, file.Truncate(1<<40)) // sparse
	info, err := file.Stat()
	must(t, err)
	if info.SizeBytes != 1<<40 || info.AllocatedBytes > 1<<20 {
		t.Errorf("sparse file: %+v", info)
	}
	must(t, file.Sync())
	must(t, file.Truncate(3))
	must(t, file.Sync())
	wantErr(t, "Truncate(-1)", file.Truncate(-1), syscall.EINVAL)
	if got := content(t, f, "f"); got != "\x00\x00\x00" {
		t.Errorf("file holds %q", got)
	}
}

func testPreallocate(t *testing.T, f FS) {
	put(t, f, "f", "abc")
	file, err := f.Open("f", ReadWrite)
	must(t, err)
	defer file.Close()
	must(t, file.Preallocate(0, 1<<20))
	info, err := file.Stat()
	must(t, err)
	if info.SizeBytes != 1<<20 {
		t.Errorf("size %d after preallocation", info.SizeBytes)
	}
	must(t, file.Preallocate(0, 1000)) // within: changes nothing
	if got := content(t, f, "f"); got != "abc"+strings.Repeat("\x00", 1<<20-3) {
		t.Error("preallocation changed bytes")
	}
	for _, r := range [][2]int64{{-1, 10}, {0, 0}, {0, -1}} {
		wantErr(t, "Preallocate", file.Preallocate(r[0], r[1]), syscall.EINVAL)
	}
	wantErr(t, "Preallocate of too much", file.Preallocate(1<<62, 1<<61), syscall.EFBIG)
}

func testReadOnly(t *testing.T, f FS) {
	put(t, f, "f", "abc")
	file, err := f.Open("f", 0)
	must(t, err)
	defer file.Close()
	_, err = file.WriteAt([]byte("x"), 0)
	wantErr(t, "WriteAt", err, syscall.EBADF)
	wantErr(t, "Truncate", file.Truncate(0), syscall.EINVAL)
	wantErr(t, "Preallocate", file.Preallocate(0, 10), syscall.EBADF)
	must(t, file.Sync())
	if got := content(t, f, "f"); got != "abc" {
		t.Errorf("file holds %q", got)
	}
}

func testClosed(t *testing.T, f FS) {
	file, err := f.Open("f", Create)
	must(t, err)
	must(t, file.Close())
	_, err = file.ReadAt(make([]byte, 1), 0)
	wantErr(t, "ReadAt", err, fs.ErrClosed)
	_, err = file.Readv([][]byte{make([]byte, 1)}, 0)
	wantErr(t, "Readv", err, fs.ErrClosed)
	_, err = file.WriteAt(make([]byte, 1), 0)
	wantErr(t, "WriteAt", err, fs.ErrClosed)
	_, err = file.Stat()
	wantErr(t, "Stat", err, fs.ErrClosed)
	wantErr(t, "Sync", file.Sync(), fs.ErrClosed)
	wantErr(t, "Datasync", file.Datasync(), fs.ErrClosed)
	wantErr(t, "Truncate", file.Truncate(0), fs.ErrClosed)
	wantErr(t, "Preallocate", file.Preallocate(0, 1), fs.ErrClosed)
	wantErr(t, "DropCache", file.DropCache(0, 1), fs.ErrClosed)
	wantErr(t, "StartWriteback", file.StartWriteback(0, 1), fs.ErrClosed)
	wantErr(t, "Close", file.Close(), fs.ErrClosed)
	if file.Fd() != InvalidFd {
		t.Error("a closed file has a descriptor")
	}
}
