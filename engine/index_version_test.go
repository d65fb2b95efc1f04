package engine

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
)

const versionBlocks = 5

// versionStore is a closed store with blocks, the last an alias of the second:
// what the index in testdata was made of, by the last program that wrote
// records of version 1.
func versionStore(t *testing.T) *vfs.Mem {
	t.Helper()
	fs := vfs.NewMem()
	s := mustOpen(t, testOptions(fs))
	n := mustSpace(t, s)
	for id := range versionBlocks {
		mustPut(t, n, blockOf(id, 0, 9000))
	}
	mustFlush(t, s)
	b := blockOf(1, 0, 9000)
	b.Hash = hashOf(versionBlocks)
	if r := mustPut(t, n, b); !r.Shared {
		t.Fatal("the alias does not share")
	}
	mustClose(t, s)
	return fs
}

// oldIndex puts the index of version 1 into a store.
func oldIndex(t *testing.T, fs *vfs.Mem) {
	t.Helper()
	if err := fs.RemoveAll(indexDir); err != nil {
		t.Fatal(err)
	}
	if err := fs.MkdirAll(indexDir); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("testdata", "index-v1")
	names, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range names {
		p, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		f, err := fs.Open(indexDir+"/"+e.Name(), vfs.Create)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(p, 0); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Datasync(), f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

func eventWith(s *Store, kind EventKind, text string) bool {
	for _, e := range s.Events(0) {
		if e.Kind == kind && strings.Contains(e.Message, text) {
			return true
		}
	}
	return false
}

// TestOldIndexRebuilt: an index whose records are of an older version is made
// anew, with a line saying so, and no block is lost.
func TestOldIndexRebuilt(t *testing.T) {
	fs := versionStore(t)
	oldIndex(t, fs)
	o := testOptions(fs)
	o.ReadOnly = true
	if _, err := Open("mem", o); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "version 1") {
		t.Fatalf("read-only: %v", err)
	}
	s := mustOpen(t, testOptions(fs))
	if !eventWith(s, EventRebuild, "version 1") {
		t.Errorf("no event says that the index was of version 1: %v", s.Events(0))
	}
	n := mustSpace(t, s)
	for id := range versionBlocks + 1 {
		content := id
		if id == versionBlocks {
			content = 1
		}
		if got, r := getBlock(t, n, id, 9000); r.Status != StatusOK || !bytes.Equal(got, contentOf(content, 0, 9000)) {
			t.Errorf("block %d: %v %v", id, r.Status, r.Err)
		}
	}
	mustClose(t, s)
	s = mustOpen(t, testOptions(fs))
	if eventWith(s, EventRebuild, "") {
		t.Error("rebuilt a second time")
	}
	mustClose(t, s)
	wantClean(t, fs)
}

// TestNewerIndexRefused: what a later program wrote is neither read nor made
// anew.
func TestNewerIndexRefused(t *testing.T) {
	fs := versionStore(t)
	s := mustOpen(t, testOptions(fs))
	if got := s.meta.Store().PebbleFormat; got != index.FormatVersion {
		t.Fatalf("STORE names format %d, want %d", got, index.FormatVersion)
	}
	if err := s.meta.RaisePebbleFormat(index.FormatVersion + 1); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	before := fs.CrashClone(vfs.CrashOptions{KeepAll: true})
	for _, readOnly := range []bool{false, true} {
		o := testOptions(fs)
		o.ReadOnly = readOnly
		if _, err := Open("mem", o); !errors.Is(err, ErrUnsupported) {
			t.Errorf("read-only %v: %v", readOnly, err)
		}
	}
	wantSameTree(t, before, fs)
}
