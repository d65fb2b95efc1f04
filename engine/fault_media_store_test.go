package engine

import (
	"path"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// mediaStore is a small closed store with one of each artifact in it.
type mediaStore struct {
	*victimStore
	footerStart int64 // of the first segment
	// unused are files of the index that no Open needs: Pebble removes them late.
	unused map[string]bool
}

// newMediaStore is the victimStore with a quarantined block, so that there is
// evidence, and with PROBE.
func newMediaStore(t testing.TB) *mediaStore {
	t.Helper()
	m := &mediaStore{victimStore: newVictim(t)}
	s := mustOpen(t, victimOptions(m.fs))
	n := mustSpace(t, s)
	m.put(t, n, victimBlock{51, 51, 0, 4000})
	mustFlush(t, s)
	e := m.locate(t, s, n, 51)
	m.past = append(m.past, m.clone())
	flipByte(t, m.fs, disk.SegmentName(e.Address.Segment), e.Address.Offset()+4096)
	wantStatus(t, n, 51, 4000, StatusCorrupt)
	m.gone, m.blocks = append(m.gone, m.blocks[len(m.blocks)-1]), m.blocks[:len(m.blocks)-1]
	if held, err := m.fs.List(quarantineDir); err != nil || len(held) == 0 {
		t.Fatalf("no evidence: %v %v", held, err)
	}
	mustClose(t, s)
	// PROBE is written where there is a device to measure, and so not here.
	plantFile(t, m.fs, probeFile, []byte(`{"format_version": 1, "report": {}}`))
	m.setBaseline(t)
	m.footerStart, _ = m.footerRange(t)
	m.findUnused(t)
	return m
}

func plantFile(t testing.TB, fs vfs.FS, name string, p []byte) {
	t.Helper()
	f, err := fs.Open(name, vfs.Create|vfs.Trunc|vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(p, 0); err != nil {
		t.Fatal(err)
	}
}

// artifact is a row of the table of outcomes.
type artifact uint8

const (
	artifactStore artifact = iota
	artifactNamespaces
	artifactLock
	artifactProbe
	artifactLog
	artifactSegment
	artifactTombstones
	artifactManifest
	artifactTable
	artifactIndexOther // markers, OPTIONS and the lock of Pebble
	artifactEvidence
	artifacts
)

func (a artifact) String() string {
	return [...]string{"STORE", "NAMESPACES", "LOCK", "PROBE", "log", "segment", "tombstones",
		"MANIFEST", "table", "other file of the index", "evidence"}[a]
}

// artifactOf tells by its name what a file of a store is.
func artifactOf(file string) artifact {
	dir, base := path.Split(file)
	switch {
	case strings.HasPrefix(file, meta.StoreFile):
		return artifactStore
	case strings.HasPrefix(file, meta.NamespacesFile):
		return artifactNamespaces
	case file == meta.LockFile:
		return artifactLock
	case file == probeFile:
		return artifactProbe
	case dir == logDir+"/":
		return artifactLog
	case dir == quarantineDir+"/":
		return artifactEvidence
	case dir == indexDir+"/" && strings.HasPrefix(base, "MANIFEST"):
		return artifactManifest
	case dir == indexDir+"/" && path.Ext(base) == ".sst":
		return artifactTable
	case dir == indexDir+"/":
		return artifactIndexOther
	case path.Ext(base) == ".del":
		return artifactTombstones
	}
	return artifactSegment
}

// places are where a fault of this unit strikes a file. A normal run takes all
// pages that are in use and few of the others.
func (m *mediaStore) places(t testing.TB, file string, unitBytes int64) (out []place) {
	t.Helper()
	p := readWhole(t, m.fs, file)
	size := int64(len(p))
	if unitBytes == 0 {
		return []place{{file, 0, size}}
	}
	n := int64(0)
	for from := int64(0); from == 0 || from < size; from += unitBytes {
		to := min(from+unitBytes, size)
		step := int64(1)
		switch long := artifactOf(file) == artifactSegment || artifactOf(file) == artifactEvidence; {
		case fullTests: // of what is zero, and of copies that nobody reads, a part
			if allZero(p[from:to]) || artifactOf(file) == artifactEvidence {
				step = 9
			}
		case testing.Short():
			step = 60 * 512 / min(unitBytes, 512*12)
		case allZero(p[from:to]), long && unitBytes < 4096:
			step = 17
		case long:
			step = 4
		}
		if n++; n%step == 0 || from == 0 {
			out = append(out, place{file, from, to})
		}
	}
	return out
}

// findUnused removes each file of the index in turn, and sees whether it is
// missed.
func (m *mediaStore) findUnused(t testing.TB) {
	t.Helper()
	m.unused = map[string]bool{}
	for _, file := range filesUnder(t, m.fs, indexDir, "") {
		fs := m.clone()
		if err := fs.Remove(file); err != nil {
			t.Fatal(err)
		}
		s := mustOpen(t, victimOptions(fs))
		m.unused[file] = s.rebuilds == 0
		mustClose(t, s)
	}
}

// dead reports whether nobody depends on a place of a segment: it is in no
// extent of a block that is served, nor in the header or the footer.
func (m *mediaStore) dead(p place) bool {
	if artifactOf(p.file) != artifactSegment || p.from < disk.PageBytes {
		return false
	}
	if p.file == disk.SegmentName(m.segments[0]) && p.to > m.footerStart {
		return false
	}
	for off := p.from; off < p.to; off += 512 {
		if len(m.ownersIn(p.file, off)) > 0 {
			return false
		}
	}
	return true
}

// ownersOf lists the blocks with bytes or their own header in a segment.
func (m *mediaStore) ownersOf(file string) (ids []int) {
	for id, e := range m.entries {
		if file == disk.SegmentName(e.Address.Segment) || e.IsAlias() && file == disk.SegmentName(e.Own.Address.Segment) {
			ids = append(ids, id)
		}
	}
	return ids
}
