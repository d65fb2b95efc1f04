package vfs

import (
	"io/fs"
	"slices"
	"syscall"
	"testing"
)

func wantList(t *testing.T, f FS, dir string, want ...string) {
	t.Helper()
	got, err := f.List(dir)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("List(%s) = %q, %v, want %q", dir, got, err, want)
	}
}

func testDirectories(t *testing.T, f FS) {
	wantList(t, f, ".")
	must(t, f.Mkdir("a"))
	wantErr(t, "Mkdir again", f.Mkdir("a"), fs.ErrExist)
	wantErr(t, "Mkdir without parent", f.Mkdir("x/y"), fs.ErrNotExist)
	must(t, f.MkdirAll("a/b/c"))
	must(t, f.MkdirAll("a/b/c"))
	must(t, f.MkdirAll("a"))
	put(t, f, "a/file", "")
	wantErr(t, "Mkdir over a file", f.Mkdir("a/file"), fs.ErrExist)
	wantErr(t, "Mkdir below a file", f.Mkdir("a/file/x"), syscall.ENOTDIR)
	wantErr(t, "MkdirAll over a file", f.MkdirAll("a/file"), syscall.ENOTDIR)
	wantErr(t, "MkdirAll below a file", f.MkdirAll("a/file/x"), syscall.ENOTDIR)
	for _, name := range []string{"a/z", "a/m", "a/é", "a/B"} {
		put(t, f, name, "")
	}
	wantList(t, f, "a", "B", "b", "file", "m", "z", "é")
	wantList(t, f, "a/b", "c")
	_, err := f.List("absent")
	wantErr(t, "List", err, fs.ErrNotExist)
	_, err = f.List("a/file")
	wantErr(t, "List of a file", err, syscall.ENOTDIR)
	must(t, f.SyncDir("."))
	must(t, f.SyncDir("a/b"))
	wantErr(t, "SyncDir", f.SyncDir("absent"), fs.ErrNotExist)
	wantErr(t, "SyncDir of a file", f.SyncDir("a/file"), syscall.ENOTDIR)
	// More names than one system call returns.
	must(t, f.Mkdir("many"))
	for i := range 2000 {
		put(t, f, "many/"+string([]byte{'f', byte('a' + i/676), byte('a' + i/26%26), byte('a' + i%26)}), "")
	}
	if got, err := f.List("many"); err != nil || len(got) != 2000 || !slices.IsSorted(got) {
		t.Errorf("List(many): %d names, %v", len(got), err)
	}
}

func testRemove(t *testing.T, f FS) {
	must(t, f.MkdirAll("a/b/c"))
	put(t, f, "a/b/file", "")
	wantErr(t, "Remove of a full directory", f.Remove("a/b"), syscall.ENOTEMPTY)
	wantErr(t, "Remove of nothing", f.Remove("a/x"), fs.ErrNotExist)
	wantErr(t, "Remove below a file", f.Remove("a/b/file/x"), syscall.ENOTDIR)
	must(t, f.Remove("a/b/file"))
	must(t, f.Remove("a/b/c"))
	wantList(t, f, "a/b")
	must(t, f.MkdirAll("a/b/c/d/e"))
	put(t, f, "a/b/c/d/file", "x")
	must(t, f.RemoveAll("a/b"))
	must(t, f.RemoveAll("a/b"))
	must(t, f.RemoveAll("not/there"))
	put(t, f, "a/file", "")
	must(t, f.RemoveAll("a/file"))
	wantList(t, f, "a")
}

func testRename(t *testing.T, f FS) {
	must(t, f.MkdirAll("d/sub"))
	must(t, f.Mkdir("empty"))
	put(t, f, "one", "1")
	put(t, f, "two", "2")
	for _, c := range []struct {
		from, to string
		want     error
	}{
		{"absent", "x", fs.ErrNotExist},
		{"one", "absent/x", fs.ErrNotExist},
		{"one", "two/x", syscall.ENOTDIR},
		{"one", "d", syscall.EISDIR},
		{"d", "one", syscall.ENOTDIR},
		{"empty", "d", syscall.ENOTEMPTY},
		{"d", "d/sub/x", syscall.EINVAL},
		{"d/sub", "d", syscall.ENOTEMPTY},
	} {
		wantErr(t, "Rename "+c.from+" to "+c.to, f.Rename(c.from, c.to), c.want)
	}
	wantList(t, f, ".", "d", "empty", "one", "two")
	must(t, f.Rename("one", "one"))
	must(t, f.Rename("one", "two")) // replaces
	must(t, f.Rename("two", "d/three"))
	must(t, f.Rename("d", "empty")) // an empty directory may be replaced
	wantList(t, f, ".", "empty")
	wantList(t, f, "empty", "sub", "three")
	if got := content(t, f, "empty/three"); got != "1" {
		t.Errorf("file holds %q", got)
	}
}

func testLink(t *testing.T, f FS) {
	put(t, f, "one", "1")
	must(t, f.Mkdir("d"))
	must(t, f.Link("one", "d/two"))
	for _, name := range []string{"one", "d/two"} {
		if info, err := f.Stat(name); err != nil || info.Links != 2 {
			t.Errorf("Stat(%s) = %+v, %v, want 2 links", name, info, err)
		}
	}
	wantErr(t, "Link over a name", f.Link("one", "d/two"), fs.ErrExist)
	wantErr(t, "Link of nothing", f.Link("absent", "x"), fs.ErrNotExist)
	wantErr(t, "Link of a directory", f.Link("d", "x"), fs.ErrPermission)
	wantErr(t, "Link into nothing", f.Link("one", "absent/x"), fs.ErrNotExist)
	must(t, f.Rename("one", "d/two")) // two names of one file: nothing happens
	wantList(t, f, ".", "d", "one")
	must(t, f.Remove("one"))
	if info, err := f.Stat("d/two"); err != nil || info.Links != 1 {
		t.Errorf("Stat = %+v, %v, want 1 link", info, err)
	}
	if got := content(t, f, "d/two"); got != "1" {
		t.Errorf("file holds %q", got)
	}
}

func testUnlinked(t *testing.T, f FS) {
	put(t, f, "removed", "1")
	put(t, f, "replaced", "2")
	put(t, f, "other", "3")
	removed, err := f.Open("removed", ReadWrite)
	must(t, err)
	replaced, err := f.Open("replaced", 0)
	must(t, err)
	must(t, f.Remove("removed"))
	must(t, f.Rename("other", "replaced"))
	_, err = removed.WriteAt([]byte("x"), 1)
	must(t, err)
	must(t, removed.Sync())
	var p [2]byte
	if n, err := removed.ReadAt(p[:], 0); n != 2 || err != nil || string(p[:]) != "1x" {
		t.Errorf("removed file: %q, %v", p[:n], err)
	}
	if n, _ := replaced.ReadAt(p[:], 0); string(p[:n]) != "2" {
		t.Errorf("replaced file: %q", p[:n])
	}
	if info, err := removed.Stat(); err != nil || info.Links != 0 {
		t.Errorf("Stat = %+v, %v, want no link", info, err)
	}
	must(t, removed.Close())
	must(t, replaced.Close())
}

func testLock(t *testing.T, f FS) {
	put(t, f, "LOCK", "owner")
	must(t, f.Mkdir("d"))
	first, err := f.Lock("LOCK")
	must(t, err)
	_, err = f.Lock("LOCK")
	wantErr(t, "second Lock", err, ErrLocked)
	if got := content(t, f, "LOCK"); got != "owner" {
		t.Errorf("the lock file holds %q", got)
	}
	_, err = first.WriteAt([]byte("OWNER"), 0)
	must(t, err)
	other, err := f.Lock("d/other") // creates
	must(t, err)
	must(t, first.Close())
	again, err := f.Lock("LOCK")
	must(t, err)
	// A new file under the name is not the locked one.
	must(t, f.Remove("LOCK"))
	fresh, err := f.Lock("LOCK")
	must(t, err)
	for _, file := range []File{other, again, fresh} {
		must(t, file.Close())
	}
	_, err = f.Lock("d")
	wantErr(t, "Lock of a directory", err, ErrNotRegular)
	_, err = f.Lock("absent/x")
	wantErr(t, "Lock in nothing", err, fs.ErrNotExist)

	root, err := f.Lock(".")
	must(t, err)
	_, err = f.Lock(".")
	wantErr(t, "second Lock of the root", err, ErrLocked)
	wantList(t, f, ".", "LOCK", "d")
	put(t, f, "file", "written under the lock")
	must(t, root.Close())
	wantErr(t, "second Close", root.Close(), fs.ErrClosed)
	root, err = f.Lock(".")
	must(t, err)
	must(t, root.Close())
}

func testStat(t *testing.T, f FS) {
	must(t, f.Mkdir("d"))
	put(t, f, "d/file", "12345")
	info, err := f.Stat("d")
	if err != nil || info.Name != "d" || !info.IsDir || info.IsRegular || info.IsSymlink {
		t.Errorf("Stat(d) = %+v, %v", info, err)
	}
	file, err := f.Open("d/file", 0)
	must(t, err)
	must(t, file.Sync()) // a file system may place the blocks only now
	byHandle, err := file.Stat()
	must(t, err)
	must(t, file.Close())
	want := Info{Name: "file", SizeBytes: 5, AllocatedBytes: byHandle.AllocatedBytes, IsRegular: true, Links: 1, Modified: byHandle.Modified}
	if byHandle != want {
		t.Errorf("File.Stat = %+v, want %+v", byHandle, want)
	}
	if byName, err := f.Stat("d/file"); err != nil || byName != want {
		t.Errorf("Stat(d/file) = %+v, %v, want %+v", byName, err, want)
	}
	_, err = f.Stat("d/absent")
	wantErr(t, "Stat", err, fs.ErrNotExist)
	if !IsNotExist(err) {
		t.Error("IsNotExist says no")
	}
	_, err = f.Stat("d/file/x")
	wantErr(t, "Stat below a file", err, syscall.ENOTDIR)
	usage, err := f.Statfs()
	if err != nil || usage.TotalBytes <= 0 || usage.AvailableBytes < 0 || usage.AvailableBytes > usage.TotalBytes {
		t.Errorf("Statfs = %+v, %v", usage, err)
	}
}

func testRoot(t *testing.T, f FS) {
	put(t, f, "file", "")
	info, err := f.Stat(".")
	if err != nil || !info.IsDir || info.Name != "." {
		t.Errorf("Stat(.) = %+v, %v", info, err)
	}
	must(t, f.MkdirAll("."))
	must(t, f.SyncDir("."))
	wantErr(t, "Mkdir(.)", f.Mkdir("."), fs.ErrExist)
	wantErr(t, "Remove(.)", f.Remove("."), ErrInvalidName)
	wantErr(t, "RemoveAll(.)", f.RemoveAll("."), ErrInvalidName)
	wantErr(t, "Rename(.)", f.Rename(".", "x"), ErrInvalidName)
	wantErr(t, "Rename to .", f.Rename("file", "."), ErrInvalidName)
	wantErr(t, "Link to .", f.Link("file", "."), ErrInvalidName)
	_, err = f.Open(".", 0)
	wantErr(t, "Open(.)", err, ErrInvalidName)
	wantList(t, f, ".", "file")
}
