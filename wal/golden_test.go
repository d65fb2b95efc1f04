package wal

import (
	"bytes"
	"encoding/hex"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with testdata/name, or rewrites that with -update.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%s differs (rewrite with -update if the format was meant to change)\ngot:\n%s\nwant:\n%s", file, show(got), show(want))
	}
}

func show(p []byte) string {
	if bytes.ContainsRune(p, 0) {
		return hex.Dump(bytes.TrimRight(p, "\x00"))
	}
	return string(p)
}

// smallLog writes a log with two groups and its closing mark.
func smallLog(t testing.TB, fs vfs.FS) Options {
	t.Helper()
	o := testOptions(fs)
	l := mustCreate(t, o, 0)
	mustAppend(t, l, "first", "second record")
	mustSync(t, l)
	l.SetMark(l.End())
	mustAppend(t, l, "third")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return o
}

// TestGoldenFile pins the bytes on disk: a change here is a change of format.
func TestGoldenFile(t *testing.T) {
	fs := vfs.NewMem()
	o := smallLog(t, fs)
	golden(t, "golden.wal", readAll(t, fs, o.path(MinLSN)))
}

// TestGoldenReadBack: files of earlier builds stay readable.
func TestGoldenReadBack(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "golden.wal"))
	if err != nil {
		t.Fatal(err)
	}
	fs := vfs.NewMem()
	o := testOptions(fs)
	putFile(t, fs, o.path(MinLSN), data)
	r, got := mustRecover(t, o, 0)
	wantStrings(t, got, "first", "second record", "third")
	if r.Torn != nil || r.Corrupt != nil || r.Mark != 4184 {
		t.Fatalf("recovered %+v", r)
	}
}

func TestGoldenDump(t *testing.T) {
	fs := vfs.NewMem()
	o := smallLog(t, fs)
	var out bytes.Buffer
	dump := func(title string) {
		out.WriteString("== " + title + "\n")
		if err := Dump(&out, o); err != nil {
			t.Fatal(err)
		}
	}
	dump("clean")
	l := mustCreate(t, o, 0)
	for range 3 {
		mustAppend(t, l, string(bytes.Repeat([]byte("x"), 3000)))
	}
	flip(t, fs, o.path(l.cur.h.base), 4096+20)
	putFile(t, fs, o.Dir+"/notes.txt", []byte("not ours"))
	dump("a new log behind it that rotated, the tail torn")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	dump("the tail rotten")
	flip(t, fs, o.path(MinLSN), 4096+20)
	dump("the first file rotten too")
	golden(t, "dump.txt", out.Bytes())
}
