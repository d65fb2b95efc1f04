package engine

import (
	"fmt"
	"testing"

	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// region is a run of bytes of a file that a sweep damages one at a time.
type region struct {
	file     string
	from, to int64
	// step passes over bytes in a normal run: 1 takes all. In a full run it is
	// divided by fullerBy: what is passed over then, payload and zeros, is
	// taken byte by byte in TestLaw1FlipWhileRead, without an Open for each.
	step int64
	// lossy: any block may be lost, if it is said.
	lossy bool
}

const fullerBy = 64

// offsets are the bytes that a run takes.
func (r region) offsets() (out []int64) {
	step := r.step
	if fullTests {
		step = max(step/fullerBy, 1)
	} else if testing.Short() {
		step = step*7 + 4
	}
	for off := r.from; off < r.to; off += step {
		out = append(out, off)
	}
	return out
}

const sparse = 61 // prime, so that a sweep meets every place within a word

// page is a page of which the first n bytes are in use and the rest is zero.
func page(file string, at, n int64) []region {
	return []region{
		{file: file, from: at, to: at + n, step: 1},
		{file: file, from: at + n, to: at + disk.PageBytes, step: sparse},
	}
}

const flipErrorsMax = 5 // of one sweep: the rest would say the same

// sweep damages each byte of the regions in a clone of its own.
func (v *victimStore) sweep(t *testing.T, regions ...region) {
	t.Helper()
	tally := faulttest.New(t)
	flips, errors := 0, 0
	for _, r := range regions {
		for _, off := range r.offsets() {
			fs := v.clone()
			fault := tally.Try(fmt.Sprintf("bit of %s at %d", r.file, off))
			flipByte(t, fs, r.file, off)
			fault.Fire()
			before := fs.CrashClone(vfs.CrashOptions{KeepAll: true})
			vd := v.examine(fs)
			tally.WrongBytes(vd.wrongBytes)
			flips++
			if len(vd.status) == 0 {
				vd.wrongf("one bad byte, and the store does not open")
			}
			if len(vd.reported) == 0 {
				vd.reported = v.verifyFinds(t, before)
			}
			if len(vd.reported) == 0 {
				vd.wrongf("nobody has noticed")
			}
			if lost := vd.lost(); !r.lossy && !subset(lost, v.ownersIn(r.file, off)) {
				vd.wrongf("blocks %v are lost, the byte is of %v", lost, v.ownersIn(r.file, off))
			}
			if len(vd.wrong) == 0 {
				fault.Survive()
				continue
			}
			t.Errorf("%s offset %d: %q, reported %q", r.file, off, vd.wrong, vd.reported)
			if errors++; errors == flipErrorsMax {
				t.Fatal("and so on")
			}
		}
	}
	if flips == 0 {
		t.Fatal("nothing was damaged")
	}
	tally.Settle()
	t.Logf("%d bytes damaged one by one", flips)
}

// ownersIn lists the blocks that a byte of a file belongs to.
func (v *victimStore) ownersIn(file string, off int64) []int {
	for _, id := range v.segments {
		if file == disk.SegmentName(id) {
			return v.owners(id, off)
		}
	}
	return nil
}

// thin makes a sweep take every n-th of the bytes that it would take.
func thin(n int64, regions []region) []region {
	for i := range regions {
		regions[i].step *= n
	}
	return regions
}

// extentRegions are the extents of every block in a segment.
func (v *victimStore) extentRegions(segment uint64, step int64) (out []region) {
	file := disk.SegmentName(segment)
	seen := map[disk.Address]bool{}
	add := func(at disk.Address, headerPages uint16, bytes int64) {
		if at.Segment != segment || seen[at] {
			return
		}
		seen[at] = true
		out = append(out, page(file, at.Offset(), 256)...)
		out = append(out, region{file: file, from: at.Offset() + int64(headerPages)*disk.PageBytes, to: at.Offset() + bytes, step: step})
	}
	for _, b := range v.blocks {
		e := v.entries[b.id]
		add(e.Address, e.HeaderPages, e.Bytes())
		add(e.Own.Address, e.Own.HeaderPages, e.Own.Bytes())
	}
	return out
}

// logRegions are the header and the frames of the only log file.
func (v *victimStore) logRegions(t *testing.T) []region {
	t.Helper()
	files := filesUnder(t, v.fs, logDir, ".wal")
	if len(files) != 1 {
		t.Fatalf("log files %v, want one", files)
	}
	p := readWhole(t, v.fs, files[0])
	end := len(p)
	for end > 0 && p[end-1] == 0 {
		end--
	}
	if end <= disk.PageBytes {
		t.Fatal("the log is empty")
	}
	return append(page(files[0], 0, 104),
		region{file: files[0], from: disk.PageBytes - 8, to: int64(end), step: 1},
		region{file: files[0], from: int64(end), to: int64(len(p)), step: 4093})
}

// tombRegions is the sidecar of a segment.
func (v *victimStore) tombRegions(t *testing.T, segment uint64) []region {
	t.Helper()
	file := disk.SidecarName(segment)
	size := int64(len(readWhole(t, v.fs, file)))
	if size <= disk.TombstoneHeaderBytes {
		t.Fatalf("%s has no tombstones", file)
	}
	return []region{
		{file: file, from: 0, to: 64, step: 1},
		{file: file, from: 64, to: disk.TombstoneHeaderBytes, step: sparse},
		{file: file, from: disk.TombstoneHeaderBytes, to: size, step: 1},
	}
}

func (v *victimStore) footerRegions(t *testing.T) []region {
	t.Helper()
	file := disk.SegmentName(v.segments[0])
	start, end := v.footerRange(t)
	return append(page(file, start, 96+112*int64(len(v.entries))),
		region{file: file, from: end - 64, to: end, step: 1})
}

// TestFaultFlipEveryByte: whichever single byte of a store is damaged, the store
// opens, no byte comes out wrong, no block is lost but the one whose byte it
// was, no dropped block returns, and somebody says so.
func TestFaultFlipEveryByte(t *testing.T) {
	v := newVictim(t)
	first, second := v.segments[0], v.segments[1]
	for _, c := range []struct {
		name    string
		thin    int64
		regions []region
	}{
		{"store", 1, storeRegions(meta.StoreFile)},
		{"store copy", 1, storeRegions(meta.StoreCopyFile)},
		{"namespaces", 1, v.wholeFile(t, meta.NamespacesFile)},
		{"namespaces copy", 1, v.wholeFile(t, meta.NamespacesCopyFile)},
		{"log", 1, v.logRegions(t)},
		{"segment header", 1, append(page(disk.SegmentName(first), 0, 72), page(disk.SegmentName(second), 0, 72)...)},
		{"footer", 1, v.footerRegions(t)},
		{"tombstones", 1, append(v.tombRegions(t, first), v.tombRegions(t, second)...)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v.sweep(t, thin(c.thin, c.regions)...)
		})
	}
}

// storeRegions are the fields of STORE, what is reserved, and the sum.
func storeRegions(file string) []region {
	return []region{{file: file, to: 136, step: 1}, {file: file, from: 136, to: 504, step: 13}, {file: file, from: 504, to: 512, step: 1}}
}

func (v *victimStore) wholeFile(t *testing.T, file string) []region {
	t.Helper()
	return []region{{file: file, to: int64(len(readWhole(t, v.fs, file))), step: 1}}
}

// TestLaw1FlipExtent is the same for the extents themselves, headers and
// bytes and padding, in sealed and unsealed segments.
func TestLaw1FlipExtent(t *testing.T) {
	v := newVictim(t)
	for _, segment := range v.segments {
		t.Run(disk.SegmentName(segment), func(t *testing.T) {
			t.Parallel()
			// TestLaw1FlipWhileRead takes every byte, without a new Open for each.
			v.sweep(t, thin(5, v.extentRegions(segment, 3*sparse))...)
		})
	}
}

// TestFaultFlipLogAfterKill: the log still has what the index has not. A block may
// be lost only with a word, a dropped one stays dropped.
func TestFaultFlipLogAfterKill(t *testing.T) {
	v := newVictim(t).killed(t)
	regions := v.logRegions(t)
	for i := range regions {
		regions[i].lossy = true
	}
	v.sweep(t, thin(2, regions)...)
}

// TestFaultFlipExtentAfterKill: what is behind the durable mark is verified before
// it is admitted.
func TestFaultFlipExtentAfterKill(t *testing.T) {
	v := newVictim(t).killed(t)
	newest := v.entries[14].Address.Segment
	v.segments[1] = newest
	v.sweep(t, thin(7, v.extentRegions(newest, 3*sparse))...)
}

// TestFaultFlipIndexLost: the index is gone as well, and rebuilt from what is
// damaged.
func TestFaultFlipIndexLost(t *testing.T) {
	v := newVictim(t).variant(t, func(fs *vfs.Mem) {
		if err := fs.RemoveAll(indexDir); err != nil {
			t.Fatal(err)
		}
	})
	first, second := v.segments[0], v.segments[1]
	tombs := append(v.tombRegions(t, first), v.tombRegions(t, second)...)
	for i := range tombs {
		tombs[i].lossy = true // what they killed is unknown: the segment is left out
	}
	for _, c := range []struct {
		name    string
		thin    int64
		regions []region
	}{
		{"footer", 7, v.footerRegions(t)},
		{"tombstones", 7, tombs},
		{"segment header", 7, append(page(disk.SegmentName(first), 0, 72), page(disk.SegmentName(second), 0, 72)...)},
		{"sealed extents", 7, v.extentRegions(first, 3*sparse)},
		{"unsealed extents", 7, v.extentRegions(second, 3*sparse)},
		{"log", 7, v.logRegions(t)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			v.sweep(t, thin(c.thin, c.regions)...)
		})
	}
}
