package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/vfs"
)

func TestFileNames(t *testing.T) {
	for _, base := range []LSN{MinLSN, 4104, 0xabcdef0, MaxLSN} {
		if got, ok := parseFileName(fileName(base)); !ok || got != base {
			t.Errorf("%s: %d, %v", fileName(base), got, ok)
		}
	}
	for _, name := range []string{
		"", ".wal", "1000.wal", "0000000000001000", "0000000000001000.WAL", "0000000000001000.wal.tmp",
		"0000000000001001.wal" /* not aligned */, "0000000000000008.wal" /* below MinLSN */, "ffffffffffffffff.wal",
		"000000000000ABC0.wal", "+000000000001000.wal", "00000000000_1000.wal",
	} {
		if base, ok := parseFileName(name); ok {
			t.Errorf("%q was taken for the file of base %d", name, base)
		}
	}
}

func sampleHeader() header {
	return header{uuid: [16]byte{9}, base: 8192, segmentBytes: 1 << 20, salt: 7, prevBase: 4096, prevSum: 5}
}

func TestHeaderRoundTrip(t *testing.T) {
	h := sampleHeader()
	got, reason, err := decodeHeader(h.encode())
	if err != nil || reason != "" || got != h {
		t.Fatalf("%+v, %q, %v", got, reason, err)
	}
}

func TestHeaderRefused(t *testing.T) {
	resum := func(p []byte) []byte {
		binary.LittleEndian.PutUint64(p[headerSumOff:], xxhash.Sum64(p[:headerSumOff]))
		return p
	}
	set := func(off int, v uint64) func([]byte) []byte {
		return func(p []byte) []byte {
			binary.LittleEndian.PutUint64(p[off:], v)
			return resum(p)
		}
	}
	tests := []struct {
		name   string
		change func([]byte) []byte
		reason string // of a damaged header
		err    string // of one from a newer version
	}{
		{"empty", func([]byte) []byte { return nil }, "cut short", ""},
		{"cut", func(p []byte) []byte { return p[:4095] }, "cut short", ""},
		{"zeros", func(p []byte) []byte { return make([]byte, headerBytes) }, "no magic", ""},
		{"padding flipped", func(p []byte) []byte { p[2000] = 1; return p }, "does not match its sum", ""},
		{"version", set(8, 2), "", "version 2"},
		{"incompat", set(16, 1<<5), "", "incompat bits 0x20"},
		{"base zero", set(56, 0), "base LSN 0", ""},
		{"base not aligned", set(56, 8193), "base LSN 8193", ""},
		{"base too large", set(56, 1<<63), "base LSN", ""},
		{"size too large", set(64, 1<<40), "file size", ""},
		{"size negative", set(64, 1<<63), "file size", ""},
		{"continues itself", set(80, 8192), "continues", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := sampleHeader()
			_, reason, err := decodeHeader(tt.change(h.encode()))
			if (reason == "") != (tt.reason == "") || !strings.Contains(reason, tt.reason) {
				t.Errorf("reason %q, want %q", reason, tt.reason)
			}
			if (err == nil) != (tt.err == "") || err != nil && (!errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("error %v, want %q", err, tt.err)
			}
		})
	}
}

// TestGroupRoundTrip: what appendGroup writes parseGroup gives back, and only
// at its own place, behind its own predecessor.
func TestGroupRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := sampleHeader()
		h.encode()
		records := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 1, 100), 0, 8).Draw(t, "records")
		chain := rapid.Uint64().Draw(t, "chain")
		off := headerBytes + 8*rapid.IntRange(0, 50).Draw(t, "at")
		lsn := h.lsnAt(off)
		frames, sum := appendGroup(nil, lsn, h.salt, chain, lsn, lsn-8, records)
		data := append(make([]byte, off), frames...)
		data = append(data, make([]byte, 100)...)

		g, d := parseGroup(&h, data, off, chain)
		if d != nil {
			t.Fatalf("refused: %+v", d)
		}
		if g.lsn != lsn || g.end != lsn+LSN(groupBytes(records)) || g.commit.chainSum != sum ||
			g.commit.synced != lsn || g.commit.mark != lsn-8 {
			t.Fatalf("group %+v", g)
		}
		i := 0
		err := g.each(func(r Record) error {
			if !bytes.Equal(r.Data, records[i]) || r.End != g.end {
				t.Fatalf("record %d: %+v", i, r)
			}
			i++
			return nil
		})
		if err != nil || i != len(records) {
			t.Fatalf("%d records, %v", i, err)
		}
		if _, d := parseGroup(&h, data, off, chain+1); d == nil {
			t.Fatal("accepted behind another group")
		}
		moved := append(make([]byte, 8), data...)
		if _, d := parseGroup(&h, moved, off+8, chain); d == nil {
			t.Fatal("accepted at another place")
		}
		h.salt++
		if _, d := parseGroup(&h, data, off, chain); d == nil {
			t.Fatal("accepted in another file")
		}
	})
}

// TestCommitPlausible: a commit that knows more than its writer could is none.
func TestCommitPlausible(t *testing.T) {
	for _, tt := range []struct {
		synced, mark LSN
		want         bool
	}{{8192, 8192, true}, {8192, 0, true}, {8200, 0, false}, {4096, 8192, false}} {
		p, _ := appendGroup(nil, 8192, 1, 2, tt.synced, tt.mark, nil)
		if _, ok := decodeCommit(p, 1, 8192); ok != tt.want {
			t.Errorf("synced %d, mark %d at 8192: %v", tt.synced, tt.mark, ok)
		}
	}
}

func TestLastNonZero(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := make([]byte, rapid.IntRange(0, 9000).Draw(t, "size"))
		from := rapid.IntRange(0, len(p)).Draw(t, "from")
		want := -1
		for range rapid.IntRange(0, 3).Draw(t, "set") {
			if len(p) > 0 {
				at := rapid.IntRange(0, len(p)-1).Draw(t, "at")
				p[at] = 1
				if at >= from {
					want = max(want, at)
				}
			}
		}
		if got := lastNonZero(p, from); got != want {
			t.Fatalf("%d, want %d", got, want)
		}
	})
}

func FuzzHeader(f *testing.F) {
	h := sampleHeader()
	f.Add(h.encode())
	f.Add(make([]byte, headerBytes))
	f.Fuzz(func(t *testing.T, p []byte) {
		h, reason, err := decodeHeader(p)
		if err == nil && reason == "" && !bytes.Equal(h.encode()[:96], p[:96]) {
			t.Fatalf("accepted what it would not write: %+v", h)
		}
	})
}

// FuzzFrames puts arbitrary bytes behind a sound header.
func FuzzFrames(f *testing.F) {
	h := header{uuid: testOptions(nil).UUID, base: MinLSN, segmentBytes: MinSegmentBytes, salt: 3}
	page := h.encode()
	one, sum := appendGroup(nil, MinLSN, h.salt, h.sum, MinLSN, 0, [][]byte{[]byte("a"), []byte("bc")})
	two, _ := appendGroup(nil, MinLSN+LSN(len(one)), h.salt, sum, MinLSN, 0, [][]byte{[]byte("d")})
	f.Add(one)
	f.Add(append(bytes.Clone(one), two...))
	f.Add(two)
	f.Add([]byte{255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, frames []byte) { fuzzFile(t, append(bytes.Clone(page), frames...)) })
}

// FuzzRecover takes arbitrary bytes for a whole file.
func FuzzRecover(f *testing.F) {
	fs := vfs.NewMem()
	o := smallLog(f, fs)
	f.Add(readAll(f, fs, o.path(MinLSN)))
	f.Add([]byte(magic))
	f.Fuzz(fuzzFile)
}

// fuzzFile: recovery of any file ends, in order, without allocating beyond it.
func fuzzFile(t *testing.T, data []byte) {
	fs := vfs.NewMem()
	o := testOptions(fs)
	putFile(t, fs, o.path(MinLSN), data)
	last := LSN(0)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := Recover(o, 0, func(r Record) error {
		if r.LSN <= last || r.End <= r.LSN || len(r.Data) == 0 {
			t.Fatalf("record %d to %d behind %d", r.LSN, r.End, last)
		}
		last = r.LSN
		return nil
	})
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > uint64(len(data))+1<<20 {
		t.Fatalf("%d bytes allocated for a file of %d", n, len(data))
	}
	if err != nil && !errors.Is(err, ErrUnsupported) {
		t.Fatal(err)
	}
	if err == nil && (r.End < last || r.Mark > r.Synced) {
		t.Fatalf("recovered %+v, last record at %d", r, last)
	}
}
