package wal

import (
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestReadErrors: what cannot be read is an error, never an empty or a torn
// log, and the error is there for the caller to tell.
func TestReadErrors(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpList, vfs.OpOpen, vfs.OpRead, vfs.OpStat} {
		for nth := 1; ; nth++ {
			mem := vfs.NewMem()
			_, all := rotatedLog(t, mem)
			seen := 0
			o := testOptions(vfs.WithHook(mem, func(op vfs.Op) error {
				if op.Kind == kind {
					if seen++; seen == nth {
						return syscall.EIO
					}
				}
				return nil
			}))
			var got []string
			_, err := Recover(o, 0, func(r Record) error { got = append(got, string(r.Data)); return nil })
			if seen < nth {
				break // past the last operation of the kind
			}
			if !errors.Is(err, syscall.EIO) || !isPrefix(got, all) || len(got) == len(all) {
				t.Fatalf("%v %d: %d records, %v", kind, nth, len(got), err)
			}
			seen = 0
			if err := Dump(io.Discard, o); !errors.Is(err, syscall.EIO) {
				t.Fatalf("%v %d: dump: %v", kind, nth, err)
			}
		}
	}
}

// TestNoRoom: a log that does not fit is refused and leaves nothing behind;
// one that runs out of room keeps what it has.
func TestNoRoom(t *testing.T) {
	mem := vfs.NewMem()
	o := testOptions(mem)
	mem.SetCapacityBytes(o.SegmentBytes + 4096)
	l := mustCreate(t, o, 0)
	if _, err := Create(o, 0); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if r, _ := mustRecover(t, o, 0); len(r.Files) != 1 {
		t.Fatalf("recovered %+v", r)
	}
	big := strings.Repeat("b", 3000)
	mustAppend(t, l, big)
	_, _, err := l.Append([]byte(big))
	if !errors.Is(err, ErrPoisoned) || !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	r, got := mustRecover(t, o, 0)
	wantStrings(t, got, big)
	if r.Corrupt != nil || r.Torn != nil || len(r.Files) != 1 {
		t.Fatalf("recovered %+v", r)
	}
}

// failingWriter takes some bytes, then no more.
type failingWriter struct{ left int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, io.ErrShortWrite
	}
	return len(p), nil
}

func TestDumpWriteError(t *testing.T) {
	o := smallLog(t, vfs.NewMem())
	if err := Dump(&failingWriter{left: 10}, o); !errors.Is(err, io.ErrShortWrite) {
		t.Fatal(err)
	}
}

// TestErrorTexts: each typed error names the place and what to do.
func TestErrorTexts(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want []string
	}{
		{&CorruptionError{File: "wal/x.wal", Offset: 7, LSN: 9, Reason: "because"}, []string{"wal/x.wal", "offset 7", "LSN 9", "because", "rebuild"}},
		{&UnsupportedError{File: "wal/x.wal", Version: 3}, []string{"wal/x.wal", "version 3", "newer program"}},
		{&UnsupportedError{File: "wal/x.wal", Incompat: 6}, []string{"wal/x.wal", "0x6", "newer program"}},
		{&UnsupportedError{File: "wal/x.wal", ROCompat: 6}, []string{"wal/x.wal", "0x6", "only be read"}},
		{&PoisonedError{Op: "sync", File: "wal/x.wal", Cause: syscall.EIO}, []string{"sync", "wal/x.wal", syscall.EIO.Error(), "new log"}},
	} {
		for _, want := range append(tt.want, "wal: ") {
			if !strings.Contains(tt.err.Error(), want) {
				t.Errorf("%q lacks %q", tt.err, want)
			}
		}
	}
	torn := Torn{File: "wal/x.wal", Offset: 7, DroppedBytes: 5, Reason: "because"}
	if got := torn.String(); got != "wal/x.wal: torn at offset 7, 5 bytes dropped: because" {
		t.Error(got)
	}
}

// TestDiscard: a log that is given up leaves what was there before it, after
// one failure or none.
func TestDiscard(t *testing.T) {
	for _, poisoned := range []bool{false, true} {
		mem := vfs.NewMem()
		fail := false
		o := testOptions(vfs.WithHook(mem, func(op vfs.Op) error {
			if fail && op.Kind == vfs.OpWrite {
				return syscall.EIO
			}
			return nil
		}))
		old := mustCreate(t, o, 0)
		mustAppend(t, old, "a", "b")
		mustSync(t, old)
		l := mustCreate(t, o, old.End())
		for range 3 {
			mustAppend(t, l, strings.Repeat("c", 3000)) // more than a file
		}
		fail = poisoned
		if _, _, err := l.Append([]byte("d")); (err != nil) != poisoned {
			t.Fatal(err)
		}
		fail = false
		if err := l.Discard(); err != nil {
			t.Error(err)
		}
		if err := l.Discard(); !errors.Is(err, ErrClosed) {
			t.Errorf("discarded twice: %v", err)
		}
		r, got := mustRecover(t, o, 0)
		wantStrings(t, got, "a", "b")
		if len(r.Files) != 1 {
			t.Errorf("%d files are left", len(r.Files))
		}
	}
}
