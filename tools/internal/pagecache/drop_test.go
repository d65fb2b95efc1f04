package pagecache

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestDrop: contents stay, also those that were not on the device yet; what is
// no file is passed over.
func TestDrop(t *testing.T) {
	dir := t.TempDir()
	want := bytes.Repeat([]byte("block"), 10000)
	path := filepath.Join(dir, "a", "b")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, want, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := Drop(dir); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := Drop(filepath.Join(dir, "absent")); err != nil {
		t.Errorf("what is gone meanwhile is no failure: %v", err)
	}
}
