package vfs

import "testing"

func TestOpenOSRoundTrip(t *testing.T) {
	o, err := OpenOS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer o.Close()
	for name, fs := range map[string]FS{"os": o, "mem": NewMem()} {
		if err := fs.MkdirAll("a/b"); err != nil {
			t.Fatal(name, err)
		}
		f, err := fs.Open("a/b/c", Create|Excl)
		if err != nil {
			t.Fatal(name, err)
		}
		if _, err := f.WriteAt([]byte("hello"), 5000); err != nil {
			t.Fatal(name, err)
		}
		var p [5]byte
		if _, err := f.Readv([][]byte{p[:2], p[2:]}, 5000); err != nil || string(p[:]) != "hello" {
			t.Fatal(name, err, p)
		}
		if err := f.Sync(); err != nil {
			t.Fatal(name, err)
		}
		if err := fs.SyncDir("a/b"); err != nil {
			t.Fatal(name, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(name, err)
		}
		if err := fs.RemoveAll("a"); err != nil {
			t.Fatal(name, err)
		}
	}
}
