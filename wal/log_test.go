package wal

import (
	"errors"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

func TestEmptyDirectory(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs)
	for range 2 { // absent, then empty
		r, got := mustRecover(t, o, 0)
		if r.End != 0 || r.First != 0 || len(got) != 0 || len(r.Files) != 0 {
			t.Fatalf("recovered %+v", r)
		}
		if err := fs.MkdirAll(o.Dir); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOptionsChecked(t *testing.T) {
	fs := vfs.NewMem()
	for _, o := range []Options{
		{}, {FS: fs}, {Dir: "wal"}, {FS: fs, Dir: "wal"},
		{FS: fs, Dir: "wal", SegmentBytes: 4096}, {FS: fs, Dir: "wal", SegmentBytes: 10000}, {FS: fs, Dir: "wal", SegmentBytes: MaxSegmentBytes * 2},
	} {
		if _, err := Create(o, 0); !errors.Is(err, ErrInvalidOptions) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := Recover(Options{}, 0, nil); !errors.Is(err, ErrInvalidOptions) {
		t.Error(err)
	}
	if _, err := Create(testOptions(fs), MaxLSN); !errors.Is(err, ErrInvalidOptions) {
		t.Error(err)
	}
}

// TestBase: where a log starts, by what was asked for and what is there.
func TestBase(t *testing.T) {
	fs := vfs.NewMem()
	o := testOptions(fs)
	for _, tt := range []struct{ ask, want LSN }{
		{0, 4096},
		{0, 8192},        // past all that the 4096 bytes of frames could hold
		{8190, 12288},    //
		{20001, 20008},   // aligned
		{100000, 100000}, //
		{100001, 104096}, //
		{1 << 40, 1 << 40} /* far on: the index was ahead of a lost log */} {
		l := mustCreate(t, o, tt.ask)
		if l.End() != tt.want {
			t.Errorf("asked for %d: %d, want %d", tt.ask, l.End(), tt.want)
		}
	}
	if r, _ := mustRecover(t, o, 0); r.End != 1<<40 || r.Corrupt != nil || r.Torn != nil {
		t.Fatalf("recovered %+v", r)
	}
}

func TestAppendLimits(t *testing.T) {
	l := mustCreate(t, testOptions(vfs.NewMem()), 0)
	fits := 4096 - 2*commitFrameBytes - frameHeaderBytes
	for _, tt := range []struct {
		name    string
		records [][]byte
		want    error
	}{
		{"no records", nil, ErrEmpty},
		{"empty record", [][]byte{{1}, {}}, ErrEmpty},
		{"nil record", [][]byte{nil}, ErrEmpty},
		{"record too large", [][]byte{make([]byte, MaxRecordBytes+1)}, ErrTooLarge},
		{"group too large", [][]byte{make([]byte, fits+1)}, ErrTooLarge},
		{"largest group", [][]byte{make([]byte, fits)}, nil},
		{"again, in the next file", [][]byte{make([]byte, fits)}, nil},
	} {
		if _, _, err := l.Append(tt.records...); !errors.Is(err, tt.want) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if s := l.Stats(); s.Appends != 2 || s.Files != 2 {
		t.Errorf("%+v", s)
	}
}

func TestLargestRecord(t *testing.T) {
	o := testOptions(vfs.NewMem())
	o.SegmentBytes = 4 << 20
	l := mustCreate(t, o, 0)
	want := strings.Repeat("r", MaxRecordBytes)
	for range 5 {
		mustAppend(t, l, want)
	}
	_, got := mustRecover(t, o, 0)
	wantStrings(t, got, want, want, want, want, want)
}

// TestPositions: LSNs of records, groups and recovery agree, over files.
func TestPositions(t *testing.T) {
	o := testOptions(vfs.NewMem())
	l := mustCreate(t, o, 0)
	type position struct{ first, end LSN }
	var want []position
	for range 5 {
		first, end := mustAppend(t, l, strings.Repeat("p", 2000), "q")
		if end != l.End() || first%8 != 0 {
			t.Fatalf("%d to %d, log ends at %d", first, end, l.End())
		}
		want = append(want, position{first, end}, position{first + 2008, end})
	}
	for i := range want {
		var got []position
		_, err := Recover(o, want[i].first, func(r Record) error {
			got = append(got, position{r.LSN, r.End})
			return nil
		})
		if err != nil || len(got) != len(want)-i {
			t.Fatalf("from %d: %d records, %v", want[i].first, len(got), err)
		}
		for k, g := range got {
			if g != want[i+k] {
				t.Fatalf("from %d: %v, want %v", want[i].first, g, want[i+k])
			}
		}
	}
	stop := errors.New("stop")
	if _, err := Recover(o, 0, func(Record) error { return stop }); err != stop {
		t.Fatalf("%v, want the callback's error as it is", err)
	}
}

// TestMark: it never moves back and never passes what is synced.
func TestMark(t *testing.T) {
	o := testOptions(vfs.NewMem())
	l := mustCreate(t, o, 0)
	_, first := mustAppend(t, l, "a")
	l.SetMark(1 << 40)
	if got := l.Stats().Mark; got != MinLSN {
		t.Fatalf("mark %d before the sync", got)
	}
	mustSync(t, l)
	l.SetMark(1)
	if err := l.AppendMark(); err != nil {
		t.Fatal(err)
	}
	if r, _ := mustRecover(t, o, 0); r.Mark != first || r.Synced != first || r.Corrupt != nil {
		t.Fatalf("recovered %+v", r)
	}
}

// TestSyncCounts: a sync with nothing new costs nothing.
func TestSyncCounts(t *testing.T) {
	l := mustCreate(t, testOptions(vfs.NewMem()), 0)
	if got := mustSync(t, l); got != MinLSN || l.Stats().Syncs != 0 {
		t.Fatalf("%d, %+v", got, l.Stats())
	}
	_, end := mustAppend(t, l, "a")
	for range 3 {
		if got := mustSync(t, l); got != end {
			t.Fatal(got)
		}
	}
	if n := l.Stats().Syncs; n != 1 {
		t.Fatalf("%d syncs", n)
	}
}

func TestTrimAndRemoveOthers(t *testing.T) {
	fs := vfs.NewMem()
	o, _ := rotatedLog(t, fs)
	before, _ := mustRecover(t, o, 0)
	l := mustCreate(t, o, before.End)
	var bases []LSN
	for range 6 {
		mustAppend(t, l, strings.Repeat("t", 3000))
		if l.cur.h.base != l.own {
			bases = append(bases, l.cur.h.base)
		}
	}
	count := func(want int) {
		t.Helper()
		r, _ := mustRecover(t, o, 0)
		names, err := fs.List(o.Dir)
		if err != nil || len(names) != want || l.Stats().Files != want || r.Corrupt != nil {
			t.Fatalf("%d files (%v), %+v, want %d; corrupt %v", len(names), err, l.Stats(), want, r.Corrupt)
		}
		if got, want := l.Stats().AllocatedBytes, int64(want)*o.SegmentBytes; got != want || fs.UsedBytes() > want {
			t.Fatalf("%d bytes allocated, %d used, want %d", got, fs.UsedBytes(), want)
		}
	}
	steps := []struct {
		do   func() error
		want int
	}{
		{func() error { return l.Trim(before.Files[1].Base - 1) }, 9},
		{func() error { return l.Trim(before.Files[1].Base) }, 8}, // one of the old
		{l.RemoveOthers, 6},
		{l.RemoveOthers, 6},
		{func() error { return l.Trim(l.own) }, 6},
		{func() error { return l.Trim(bases[1] + 1) }, 4},
		{func() error { return l.Trim(1 << 50) }, 1}, // never the newest
	}
	for _, s := range steps {
		if err := s.do(); err != nil {
			t.Fatal(err)
		}
		count(s.want)
	}
	if r, _ := mustRecover(t, o, 0); r.First != l.cur.h.base || r.End != l.End() {
		t.Fatalf("recovered %+v", r)
	}
}

func TestClosed(t *testing.T) {
	l := mustCreate(t, testOptions(vfs.NewMem()), 0)
	_, end := mustAppend(t, l, "a")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := l.Stats(); got.Synced != got.End || got.End != end+commitFrameBytes {
		t.Fatalf("%+v", got)
	}
	_, _, appendErr := l.Append([]byte("b"))
	_, syncErr := l.Sync()
	for _, err := range []error{appendErr, syncErr, l.AppendMark(), l.Trim(1 << 50), l.RemoveOthers(), l.Close()} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
	}
}

// TestOldFileUntouched: starting a log changes nothing that is there.
func TestOldFileUntouched(t *testing.T) {
	fs := vfs.NewMem()
	o, _ := rotatedLog(t, fs)
	before, _ := mustRecover(t, o, 0)
	var content []string
	for _, f := range before.Files {
		content = append(content, string(readAll(t, fs, f.Name)))
	}
	l := mustCreate(t, o, before.End)
	mustAppend(t, l, "new")
	for i, f := range before.Files {
		if string(readAll(t, fs, f.Name)) != content[i] {
			t.Errorf("%s has changed", f.Name)
		}
	}
}
