package disk

import (
	"bytes"
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sealstone/sealstone/internal/vfs"
)

var otherUUID = [16]byte{0: 0xb0, 15: 0xbf}

// otherOptions are those of another store.
func otherOptions(fs vfs.FS) VolumeOptions {
	o := testOptions(fs)
	o.UUID, o.Key = otherUUID, otherKey
	return o
}

// segmentOf returns the files of segment 1 with an extent, as the store with
// these options makes it.
func segmentOf(t testing.TB, options func(vfs.FS) VolumeOptions, sealed bool) (data, sidecar []byte) {
	t.Helper()
	mem := vfs.NewMem()
	o := options(mem)
	v := openTestVolume(t, o)
	w := create(t, v, 1)
	planes := blockOf(1, 5000)
	e := extentOf(1, planes)
	page, _ := w.Reserve(e.Pages(), FooterEntryBytes(len(e.Hash), 0))
	e.StoreUUID, e.Address = o.UUID, Address{1, page}
	p := make([]byte, e.Pages()*PageBytes)
	copy(p[PageBytes:], planes[0])
	sum, err := EncodeExtent(p[:PageBytes], e, o.Key)
	must(t, err)
	must(t, w.WriteAt(page, p))
	entry := EntryOf(e, sum)
	must(t, w.Done(page, &entry))
	must(t, v.AppendTombstones(1, deadAt(9)))
	if sealed {
		must(t, w.Seal(w.Entries()))
	} else {
		must(t, w.Close())
	}
	return readFile(t, mem, SegmentName(1)), readFile(t, mem, SidecarName(1))
}

// memWith has these files under the names of segment 1; nil is no file.
func memWith(t testing.TB, data, sidecar []byte) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem()
	must(t, mem.MkdirAll(segmentDir(1)))
	if data != nil {
		writeFile(t, mem, SegmentName(1), data)
	}
	if sidecar != nil {
		writeFile(t, mem, SidecarName(1), sidecar)
	}
	return mem
}

// headerFrom is a file with the header page of another one.
func headerFrom(data, header []byte) []byte {
	return append(bytes.Clone(header[:PageBytes]), data[PageBytes:]...)
}

// TestForeign: which files under the name of a segment are ours.
func TestForeign(t *testing.T) {
	our, ourSide := segmentOf(t, testOptions, false)
	ourSealed, _ := segmentOf(t, testOptions, true)
	other, otherSide := segmentOf(t, otherOptions, false)
	otherSealed, _ := segmentOf(t, otherOptions, true)
	sameKey, _ := segmentOf(t, func(fs vfs.FS) VolumeOptions {
		o := otherOptions(fs)
		o.Key = testKey
		return o
	}, true)
	zeroed := func(p []byte, from, to int) []byte {
		p = bytes.Clone(p)
		clear(p[from:to])
		return p
	}
	text := bytes.Repeat([]byte("not a segment at all\n"), 2000)
	for _, tc := range []struct {
		name          string
		data, sidecar []byte
		foreign       bool
	}{
		{"ours", our, ourSide, false},
		{"the other's", other, otherSide, true},
		{"the other's, sealed", otherSealed, otherSide, true},
		{"the other's, our sidecar", other, ourSide, true},
		{"the other's, no sidecar", other, nil, true},
		{"the other's header page alone", other[:PageBytes], nil, true},
		{"the other's uuid under our key", sameKey, ourSide, true},
		{"text, no sidecar", text, nil, true},
		{"text, the other's sidecar", text, otherSide, true},
		{"text, our sidecar", text, ourSide, false},
		{"our first extent behind the other's header", headerFrom(our, other), ourSide, false},
		{"our footer behind the other's header", headerFrom(ourSealed, other), ourSide, false},
		{"our first extent behind text", headerFrom(our, text), nil, false},
		{"our extent gone too", headerFrom(other, text), nil, true},
		{"our header before the other's extents", headerFrom(other, our), ourSide, false},
		{"damaged header", flipped(our, 100), ourSide, false},
		{"damaged magic", flipped(our, 0), nil, false},
		{"damaged uuid", flipped(our, segUUIDOffset), ourSide, false},
		{"zero header", zeroed(our, 0, PageBytes), ourSide, false},
		{"zero header, nothing behind", make([]byte, 8*PageBytes), nil, false},
		{"torn header", zeroed(our, 0, foreignHeadBytes), ourSide, false},
		{"shorter than a page", other[:PageBytes-1], otherSide, false},
		{"empty", []byte{}, nil, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := memWith(t, tc.data, tc.sidecar)
			v := openTestVolume(t, testOptions(mem))
			_, there := v.Segment(1)
			if there == tc.foreign || len(v.Segments()) == 0 != tc.foreign {
				t.Fatalf("a segment: %v, foreign: %v", there, tc.foreign)
			}
			if !tc.foreign {
				if len(v.Strange()) > 0 {
					t.Errorf("strange: %v", v.Strange())
				}
				return
			}
			want := []string{SegmentName(1)}
			if tc.sidecar != nil {
				want = []string{SidecarName(1), SegmentName(1)}
			}
			if diff := cmp.Diff(want, v.Strange()); diff != "" {
				t.Errorf("strange (-want +got):\n%s", diff)
			}
			checkLeftAlone(t, v, mem)
		})
	}
}

func flipped(p []byte, at int) []byte {
	p = bytes.Clone(p)
	p[at] ^= 1
	return p
}

// checkLeftAlone does all that a volume can do with segment 1: nothing works
// on a foreign one, not a byte of it changes, and it is counted.
func checkLeftAlone(t *testing.T, v *Volume, mem *vfs.Mem) {
	t.Helper()
	before := filesUnder(t, mem)
	for name, call := range map[string]func() error{
		"Acquire":          func() error { _, err := v.Acquire(1); return err },
		"ScanSegment":      func() error { _, err := scanAll(v, 1); return err },
		"ReadFooter":       func() error { _, err := v.ReadFooter(1); return err },
		"ReadTombstones":   func() error { _, err := v.ReadTombstones(1); return err },
		"AppendTombstones": func() error { return v.AppendTombstones(1, deadAt(2)) },
		"SealOld":          func() error { return v.SealOld(1, nil) },
		"SyncOld":          func() error { return v.SyncOld(1) },
	} {
		if err := call(); !errors.Is(err, ErrNoSegment) {
			t.Errorf("%s: %v, want %v", name, err, ErrNoSegment)
		}
	}
	if _, err := v.Create(1, ClassFresh); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "not of this store") {
		t.Errorf("Create: %v", err)
	}
	if err := v.Unlink(1); err != nil {
		t.Errorf("Unlink: %v", err)
	}
	if diff := cmp.Diff(before, filesUnder(t, mem)); diff != "" {
		t.Errorf("the files changed (-before +after):\n%s", diff)
	}
	if v.AllocatedBytes() != mem.UsedBytes() || mem.UsedBytes() == 0 {
		t.Errorf("%d bytes counted of %d", v.AllocatedBytes(), mem.UsedBytes())
	}
	// Others can be made beside it.
	must(t, create(t, v, 0x101).Close())
}

// filesUnder returns the content of all files of segment directory 01.
func filesUnder(t *testing.T, mem *vfs.Mem) map[string]string {
	t.Helper()
	names, err := mem.List(segmentDir(1))
	must(t, err)
	out := map[string]string{}
	for _, n := range names {
		out[n] = string(readFile(t, mem, segmentDir(1)+"/"+n))
	}
	return out
}

// TestForeignSidecar: a sidecar without its segment goes, unless it is of
// another store, or cannot be read.
func TestForeignSidecar(t *testing.T) {
	_, ourSide := segmentOf(t, testOptions, false)
	_, otherSide := segmentOf(t, otherOptions, false)
	for _, tc := range []struct {
		name    string
		sidecar []byte
		fail    bool
		foreign bool
	}{
		{"ours", ourSide, false, false},
		{"ours, damaged", flipped(ourSide, 200), false, false},
		{"empty", []byte{}, false, false},
		{"a part of a header", otherSide[:100], false, false},
		{"the other's", otherSide, false, true},
		{"unreadable", ourSide, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			mem := memWith(t, nil, tc.sidecar)
			v := openTestVolume(t, testOptions(vfs.WithHook(mem, func(op vfs.Op) error {
				if tc.fail && op.Kind == vfs.OpOpen && op.Name == SidecarName(1) {
					return errStop
				}
				return nil
			})))
			if strange := slices.Contains(v.Strange(), SidecarName(1)); strange != tc.foreign {
				t.Errorf("strange: %v", v.Strange())
			}
			if _, err := mem.Stat(SidecarName(1)); vfs.IsNotExist(err) == tc.foreign {
				t.Errorf("the file: %v", err)
			}
			if tc.foreign {
				checkLeftAlone(t, v, mem)
			}
		})
	}
}

// TestForeignReadOnly: reading only, it is the same.
func TestForeignReadOnly(t *testing.T) {
	other, otherSide := segmentOf(t, otherOptions, true)
	mem := memWith(t, other, otherSide)
	o := testOptions(mem)
	o.ReadOnly = true
	v := openTestVolume(t, o)
	if len(v.Segments()) != 0 || len(v.Strange()) != 2 || v.AllocatedBytes() != mem.UsedBytes() {
		t.Errorf("segments %v, strange %v, %d bytes of %d", v.Segments(), v.Strange(), v.AllocatedBytes(), mem.UsedBytes())
	}
}

// TestForeignMisplaced: a copy of a segment of ours under the name of another
// is left alone, whether or not it was sealed. Where a sidecar says that a
// segment of that name was there, it is what became of that.
func TestForeignMisplaced(t *testing.T) {
	for _, sealed := range []bool{false, true} {
		data, sidecar := segmentOf(t, testOptions, sealed)
		mem := memWith(t, data, sidecar)
		writeFile(t, mem, SegmentName(0x101), data)
		v := openTestVolume(t, testOptions(mem))
		if diff := cmp.Diff([]string{SegmentName(0x101)}, v.Strange()); diff != "" || len(v.Segments()) != 1 {
			t.Errorf("sealed %v: segments %v, strange (-want +got):\n%s", sealed, v.Segments(), diff)
		}
		if err := v.SealOld(0x101, nil); !errors.Is(err, ErrNoSegment) {
			t.Errorf("sealed %v: SealOld: %v", sealed, err)
		}
		if got := readFile(t, mem, SegmentName(0x101)); !bytes.Equal(got, data) {
			t.Errorf("sealed %v: the copy was changed", sealed)
		}
		header := make([]byte, TombstoneHeaderBytes)
		must(t, EncodeTombstoneHeader(header, 0x101, testUUID, testKey))
		writeFile(t, mem, SidecarName(0x101), header)
		if v := openTestVolume(t, testOptions(mem)); len(v.Segments()) != 2 || len(v.Strange()) != 0 {
			t.Errorf("sealed %v: with a sidecar of its own: segments %v, strange %v", sealed, v.Segments(), v.Strange())
		}
	}
}
