package wal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// rotatedLog writes a log over three files, synced after each group, and
// closes it. It gives the records in order.
func rotatedLog(t testing.TB, fs vfs.FS) (Options, []string) {
	t.Helper()
	o := testOptions(fs)
	l := mustCreate(t, o, 0)
	var all []string
	for i := range 6 {
		group := []string{fmt.Sprintf("small %d", i), strings.Repeat(string(rune('a'+i)), 1700)}
		mustAppend(t, l, group...)
		l.SetMark(mustSync(t, l))
		all = append(all, group...)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := l.Stats().Files; n != 3 {
		t.Fatalf("%d files", n)
	}
	return o, all
}

// TestEveryByteFlipped: no flipped byte of a closed log, in whichever file,
// goes by in silence, and what is delivered is a prefix. Before the last
// frame it is rot.
func TestEveryByteFlipped(t *testing.T) {
	fs := vfs.NewMem()
	o, all := rotatedLog(t, fs)
	clean, _ := mustRecover(t, o, 0)
	for _, file := range clean.Files {
		last := file.Base == clean.Files[2].Base
		used := headerBytes + int64(file.End-file.Base)
		for off := int64(0); off < file.SizeBytes; off++ {
			if off > used && off%61 != 0 {
				continue // a sample of the zero tail
			}
			flip(t, fs, file.Name, off)
			r, got := mustRecover(t, o, 0)
			flip(t, fs, file.Name, off)
			if !isPrefix(got, all) {
				t.Fatalf("%s, offset %d: delivered no prefix: %d records", file.Name, off, len(got))
			}
			wantRot := off < used
			if last {
				wantRot = off < used-commitFrameBytes
			}
			if (r.Corrupt != nil) != wantRot || (r.Torn != nil) == wantRot {
				t.Fatalf("%s, offset %d of %d used: corrupt %v, torn %v", file.Name, off, used, r.Corrupt, r.Torn)
			}
			if r.Corrupt == nil && len(got) != len(all) {
				t.Fatalf("%s, offset %d: %d records lost as torn", file.Name, off, len(all)-len(got))
			}
			if r.Corrupt != nil && (r.Corrupt.File != file.Name || !errors.Is(r.Corrupt, ErrCorrupt) || r.Corrupt.LSN > file.End) {
				t.Fatalf("%s, offset %d: %v", file.Name, off, r.Corrupt)
			}
		}
	}
}

// TestEveryTruncation: a file cut at any length is noticed.
func TestEveryTruncation(t *testing.T) {
	fs := vfs.NewMem()
	o, all := rotatedLog(t, fs)
	clean, _ := mustRecover(t, o, 0)
	for i, file := range clean.Files {
		whole := readAll(t, fs, file.Name)
		used := headerBytes + int(file.End-file.Base)
		for size := 0; size < len(whole); size++ {
			if size > headerBytes && size%7 != 0 {
				continue // a sample, of all alignments
			}
			if size <= headerBytes && size%64 != 0 {
				continue
			}
			putFile(t, fs, file.Name, whole[:size])
			r, got := mustRecover(t, o, 0)
			if !isPrefix(got, all) || r.Corrupt == nil && r.Torn == nil {
				t.Fatalf("%s cut to %d: %d records, %+v", file.Name, size, len(got), r)
			}
			// What lies before another file was whole once. In the newest a
			// file without frames looks as a creation that a crash cut off.
			wantRot := size < used
			if i == 2 {
				wantRot = size > headerBytes
			}
			if (r.Corrupt != nil) != wantRot {
				t.Fatalf("%s cut to %d of %d used: corrupt %v", file.Name, size, used, r.Corrupt)
			}
		}
		putFile(t, fs, file.Name, whole)
	}
}

// TestTornTail: without a synced position behind it, damage is a torn tail,
// all groups before it are delivered, and Preserve keeps what is dropped.
func TestTornTail(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs)
	l := mustCreate(t, o, 0)
	mustAppend(t, l, "durable")
	synced := mustSync(t, l)
	torn, _ := mustAppend(t, l, "torn")
	mustAppend(t, l, "behind the hole")
	name := o.path(MinLSN)
	flip(t, fs, name, l.cur.offset(torn)+8)

	r, got := mustRecover(t, o, 0)
	wantStrings(t, got, "durable")
	if r.Corrupt != nil || r.Torn == nil || r.End != synced || r.Synced != synced || r.Torn.Offset != l.cur.offset(torn) {
		t.Fatalf("recovered %+v, torn %v", r, r.Torn)
	}
	if err := fs.MkdirAll("quarantine"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // again after a crash
		if err := Preserve(fs, o.Dir, r.Torn, "quarantine"); err != nil {
			t.Fatal(err)
		}
	}
	kept := readAll(t, fs, fmt.Sprintf("quarantine/%s.%d.torn", path.Base(name), r.Torn.Offset))
	want := readAll(t, fs, name)[r.Torn.Offset:][:r.Torn.DroppedBytes]
	if !bytes.Equal(kept, want) || r.Torn.DroppedBytes != int64(groupBytes([][]byte{make([]byte, 4)})+groupBytes([][]byte{make([]byte, 15)})) {
		t.Fatalf("kept %d bytes of %d", len(kept), r.Torn.DroppedBytes)
	}
	mustAppend(t, l, "a later commit frame")
	mustSync(t, l)
	if err := l.AppendMark(); err != nil { // now it says that all was synced
		t.Fatal(err)
	}
	if r, _ := mustRecover(t, o, 0); r.Corrupt == nil || r.Corrupt.LSN != torn {
		t.Fatalf("recovered %+v", r)
	}
}

// TestPreserveNothing: no tail, no file.
func TestPreserveNothing(t *testing.T) {
	fs := vfs.NewMem()
	for _, torn := range []*Torn{nil, {File: "wal/absent.wal"}} {
		if err := Preserve(fs, "wal", torn, "absent"); err != nil {
			t.Fatal(err)
		}
	}
	if err := Preserve(fs, "wal", &Torn{File: "wal/absent.wal", DroppedBytes: 1}, "absent"); !vfs.IsNotExist(err) {
		t.Fatal(err)
	}
}

// TestPreserveCut: a tail that is no longer there is not kept in part.
func TestPreserveCut(t *testing.T) {
	fs := vfs.NewMem()
	o := smallLog(t, fs)
	torn := &Torn{File: o.path(MinLSN), Offset: 8000, DroppedBytes: 193}
	if err := Preserve(fs, o.Dir, torn, "."); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(err)
	}
}

// TestLongFile: what was put behind a file is said, and harms nothing.
func TestLongFile(t *testing.T) {
	fs := vfs.NewMem()
	o, all := rotatedLog(t, fs)
	clean, _ := mustRecover(t, o, 0)
	for _, file := range clean.Files {
		whole := readAll(t, fs, file.Name)
		putFile(t, fs, file.Name, append(whole, 1, 2, 3))
		r, got := mustRecover(t, o, 0)
		wantStrings(t, got, all...)
		if r.Corrupt != nil || r.Torn == nil || r.Torn.File != file.Name || r.Torn.DroppedBytes != 3 {
			t.Fatalf("%s: recovered %+v, torn %v", file.Name, r, r.Torn)
		}
		putFile(t, fs, file.Name, whole)
	}
}

// TestRotBelowFrom: damage in a file that the caller needs nothing of does not
// stop recovery.
func TestRotBelowFrom(t *testing.T) {
	fs := vfs.NewMem()
	o, all := rotatedLog(t, fs)
	clean, _ := mustRecover(t, o, 0)
	flip(t, fs, clean.Files[0].Name, 4200)
	second := clean.Files[1].Base

	r, got := mustRecover(t, o, second)
	wantStrings(t, got, all[clean.Files[0].Records:]...)
	if r.Corrupt != nil || r.Files[0].Corrupt == nil || r.End != clean.End {
		t.Fatalf("recovered %+v", r)
	}
	r, got = mustRecover(t, o, second-8)
	if r.Corrupt == nil || len(got) != 0 || r.Files[1].Examined {
		t.Fatalf("recovered %+v", r)
	}
}

// TestFilesOutOfPlace: a missing, foreign, renamed or exchanged file is rot.
func TestFilesOutOfPlace(t *testing.T) {
	tests := []struct {
		name   string
		change func(t *testing.T, fs vfs.FS, o Options, files []FileInfo)
		reason string
	}{
		{"missing", func(t *testing.T, fs vfs.FS, o Options, files []FileInfo) {
			if err := fs.Remove(files[1].Name); err != nil {
				t.Fatal(err)
			}
		}, "is missing"},
		{"foreign", func(t *testing.T, fs vfs.FS, o Options, files []FileInfo) {
			h := header{uuid: [16]byte{8}, base: files[2].Base, segmentBytes: MinSegmentBytes}
			putFile(t, fs, files[2].Name, append(h.encode(), make([]byte, 4096)...))
		}, "belongs to store 08"},
		{"renamed", func(t *testing.T, fs vfs.FS, o Options, files []FileInfo) {
			if err := fs.Rename(files[2].Name, o.path(files[2].Base+8)); err != nil {
				t.Fatal(err)
			}
		}, "written for base"},
		{"of another log", func(t *testing.T, fs vfs.FS, o Options, files []FileInfo) {
			h := header{uuid: o.UUID, base: files[2].Base, segmentBytes: MinSegmentBytes, prevBase: files[1].Base, prevSum: 1}
			putFile(t, fs, files[2].Name, append(h.encode(), make([]byte, 4096)...))
		}, "another sum"},
		{"overlapping", func(t *testing.T, fs vfs.FS, o Options, files []FileInfo) {
			h := header{uuid: o.UUID, base: files[2].End - 8, segmentBytes: MinSegmentBytes}
			putFile(t, fs, o.path(h.base), append(h.encode(), make([]byte, 4096)...))
		}, "reaches into the next file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fs := vfs.NewMem()
			o, all := rotatedLog(t, fs)
			clean, _ := mustRecover(t, o, 0)
			tt.change(t, fs, o, clean.Files)
			r, got := mustRecover(t, o, 0)
			if r.Corrupt == nil || !strings.Contains(r.Corrupt.Error(), tt.reason) || !isPrefix(got, all) {
				t.Fatalf("corrupt %v, want %q", r.Corrupt, tt.reason)
			}
		})
	}
}

// TestUnsupported: a newer format is an error that names it, never damage.
func TestUnsupported(t *testing.T) {
	for _, h := range []header{{incompat: 4}, {roCompat: 2}} {
		fs := vfs.NewMem()
		o := testOptions(fs)
		h.uuid, h.base, h.segmentBytes = o.UUID, MinLSN, MinSegmentBytes
		putFile(t, fs, o.path(MinLSN), append(h.encode(), make([]byte, 4096)...))
		r, err := Recover(o, 0, nil)
		if h.incompat == 0 {
			err = errors.Join(err, r.ReadOnly) // readable, and says so
		}
		var u *UnsupportedError
		if !errors.As(err, &u) || !errors.Is(err, ErrUnsupported) || u.File != o.path(MinLSN) || u.Incompat != h.incompat || u.ROCompat != h.roCompat {
			t.Fatalf("recover: %v", err)
		}
		if _, err := Create(o, 0); !errors.Is(err, ErrUnsupported) {
			t.Fatalf("create: %v", err)
		}
	}
}
