package engine

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// wholeFault does something to files as a whole.
type wholeFault struct {
	name  string
	do    func(t *testing.T, m *mediaStore, fs *vfs.Mem)
	want  outcome
	lost  func(m *mediaStore) []int // nil: nothing
	names string                    // what is said must hold this
}

func removeFiles(names ...string) func(*testing.T, *mediaStore, *vfs.Mem) {
	return func(t *testing.T, _ *mediaStore, fs *vfs.Mem) {
		for _, n := range names {
			if err := fs.RemoveAll(n); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// both does the same to both copies of a file.
func both(file string, edit func(p []byte) []byte) func(*testing.T, *mediaStore, *vfs.Mem) {
	return func(t *testing.T, _ *mediaStore, fs *vfs.Mem) {
		for _, f := range []string{file, file + ".2"} {
			plantFile(t, fs, f, edit(readWhole(t, fs, f)))
		}
	}
}

func flipMiddle(p []byte) []byte { p[len(p)/2] ^= 4; return p }
func halve(p []byte) []byte      { return p[:len(p)/2] }
func empty([]byte) []byte        { return nil }
func zeros(p []byte) []byte      { clear(p); return p }

// segmentAs puts the first segment, and its tombstones if asked, under another
// id: one that is unused, or that of the second.
func segmentAs(id func(m *mediaStore) uint64, sidecar bool) func(*testing.T, *mediaStore, *vfs.Mem) {
	return func(t *testing.T, m *mediaStore, fs *vfs.Mem) {
		from, to := m.segments[0], id(m)
		if err := fs.MkdirAll(path.Dir(disk.SegmentName(to))); err != nil {
			t.Fatal(err)
		}
		plantFile(t, fs, disk.SegmentName(to), readWhole(t, m.fs, disk.SegmentName(from)))
		if sidecar {
			plantFile(t, fs, disk.SidecarName(to), readWhole(t, m.fs, disk.SidecarName(from)))
		}
	}
}

func ofSegment(i int) func(m *mediaStore) []int {
	return func(m *mediaStore) []int { return m.ownersOf(disk.SegmentName(m.segments[i])) }
}

var wholeFaults = []wholeFault{
	{"both copies of STORE flipped", both(meta.StoreFile, flipMiddle), refused, nil, "STORE.2"},
	{"both copies of STORE cut", both(meta.StoreFile, halve), refused, nil, "STORE.2"},
	{"both copies of STORE empty", both(meta.StoreFile, empty), refused, nil, "STORE.2"},
	{"both copies of STORE zero", both(meta.StoreFile, zeros), refused, nil, "STORE.2"},
	{"both copies of STORE removed", removeFiles(meta.StoreFile, meta.StoreCopyFile), refused, nil, "STORE"},
	{"both copies of NAMESPACES flipped", both(meta.NamespacesFile, flipMiddle), refused, nil, "NAMESPACES.2"},
	{"both copies of NAMESPACES zero", both(meta.NamespacesFile, zeros), refused, nil, "NAMESPACES.2"},
	{"both copies of NAMESPACES removed", removeFiles(meta.NamespacesFile, meta.NamespacesCopyFile), refused, nil, "NAMESPACES"},
	{"all metadata removed", removeFiles("STORE", "STORE.2", "NAMESPACES", "NAMESPACES.2"), refused, nil, "STORE"},
	{"wal/ removed", removeFiles(logDir), rebuilt, nil, "the log"},
	{"index/ removed", removeFiles(indexDir), rebuilt, nil, "index"},
	{"wal/ and index/ removed", removeFiles(logDir, indexDir), rebuilt, nil, "index"},
	{"quarantine/ removed", removeFiles(quarantineDir), unharmed, nil, ""},
	{"segments/ removed", removeFiles("segments"), missed, func(m *mediaStore) []int { return append(ofSegment(0)(m), ofSegment(1)(m)...) }, "segment-lost"},
	{"a directory of segments removed", func(t *testing.T, m *mediaStore, fs *vfs.Mem) {
		removeFiles(path.Dir(disk.SegmentName(m.segments[0])))(t, m, fs)
	}, missed, ofSegment(0), "blocks of namespace 1"},
	{"segments/, wal/ and index/ removed", removeFiles("segments", logDir, indexDir), missed,
		func(m *mediaStore) []int { return append(ofSegment(0)(m), ofSegment(1)(m)...) }, ""},
	{"the mark of damage planted", func(t *testing.T, _ *mediaStore, fs *vfs.Mem) {
		plantFile(t, fs, indexDir+"/DAMAGED", []byte("a table\n"))
	}, rebuilt, nil, "index/DAMAGED"},
	{"a copy of a segment under an unused id", segmentAs(func(m *mediaStore) uint64 { return m.segments[0] + 1 }, false), unharmed, nil, ""},
	{"the same, with its tombstones", segmentAs(func(m *mediaStore) uint64 { return m.segments[0] + 1 }, true), unharmed, nil, ""},
	{"a copy under the id that comes next", segmentAs(func(m *mediaStore) uint64 { return 0x101 }, true), unharmed, nil, ""},
	{"a copy in the place of another segment", segmentAs(func(m *mediaStore) uint64 { return m.segments[1] }, false), missed, ofSegment(1), ".seg"},
	{"the same, with its tombstones", segmentAs(func(m *mediaStore) uint64 { return m.segments[1] }, true), missed, ofSegment(1), ".seg"},
}

// TestFaultMediaFiles: files and directories that are gone, or that are those
// of another place or time, alone and with the index lost. The outcome with
// the index is the one in the table.
func TestFaultMediaFiles(t *testing.T) {
	m := newMediaStore(t)
	for _, f := range wholeFaults {
		for _, withIndex := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, index %v", f.name, withIndex), func(t *testing.T) {
				t.Parallel()
				m.strikeFiles(t, &f, withIndex)
			})
		}
	}
}

func (m *mediaStore) strikeFiles(t *testing.T, f *wholeFault, withIndex bool) {
	t.Helper()
	tally := faulttest.New(t)
	fault := tally.Try(f.name)
	fs := m.clone()
	f.do(t, m, fs)
	if treesDiffer(t, m.fs, fs) {
		fault.Fire()
	}
	if !withIndex {
		removeFiles(indexDir)(t, m, fs)
	}
	found := m.verifyFinds(t, fs.CrashClone(vfs.CrashOptions{KeepAll: true}))
	vd := m.examineMedia(fs)
	tally.WrongBytes(vd.wrongBytes)
	got := (&mediaCase{}).classify(vd)
	var may []int
	if f.lost != nil {
		may = f.lost(m)
	}
	wrong := vd.wrong
	if withIndex && got != f.want || f.want == refused && got != refused {
		wrong = append(wrong, fmt.Sprintf("%v, want %v", got, f.want))
	}
	if lost := vd.lost(); !subset(lost, may) {
		wrong = append(wrong, fmt.Sprintf("blocks %v are lost", lost))
	}
	if said := strings.Join(append(vd.reported, found...), "\n"); withIndex && !strings.Contains(said, f.names) {
		wrong = append(wrong, fmt.Sprintf("nobody says %q", f.names))
	}
	if len(wrong) > 0 {
		t.Fatalf("%q; reported %q; verify %q", wrong, vd.reported, found)
	}
	fault.Survive()
}

// TestFaultMediaSidecar: without an index, a segment whose tombstones are
// damaged is left out whole, and the event says how much that is; one whose
// extents are damaged loses those.
func TestFaultMediaSidecar(t *testing.T) {
	m := newMediaStore(t)
	tally := faulttest.New(t)
	for _, c := range []struct {
		name, want string
		do         func(fs *vfs.Mem)
	}{
		{"tombstones", "so all 5 extents are left out", func(fs *vfs.Mem) {
			flipByte(t, fs, disk.SidecarName(m.segments[0]), disk.TombstoneHeaderBytes)
		}},
		{"extent and footer", "1 extents do not verify and are left out", func(fs *vfs.Mem) {
			e := m.entries[2]
			flipByte(t, fs, disk.SegmentName(e.Address.Segment), e.Address.Offset()+disk.PageBytes)
			flipByte(t, fs, disk.SegmentName(m.segments[0]), m.footerStart+40)
		}},
	} {
		fault := tally.Try(c.name)
		fs := m.clone()
		removeFiles(indexDir)(t, m, fs)
		c.do(fs)
		fault.Fire()
		vd := m.examineMedia(fs)
		tally.WrongBytes(vd.wrongBytes)
		if len(vd.wrong) > 0 || !slices.ContainsFunc(vd.reported, func(s string) bool { return strings.Contains(s, c.want) }) {
			t.Errorf("%s: %q; lost %v; reported %q, want %q", c.name, vd.wrong, vd.lost(), vd.reported, c.want)
			continue
		}
		fault.Survive()
	}
}
