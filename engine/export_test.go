package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// exportOptions is a store with an identity of its own.
func exportOptions(fs vfs.FS, identity byte) Options {
	o := testOptions(fs)
	o.private.uuid, o.private.secret = [16]byte{identity}, [32]byte{identity}
	return o
}

// exportSource fills a store with blocks of two tenants, some compressed, some
// aliases, each the child of the one before; some that are gone.
func exportSource(t testing.TB, o Options, blocks, size int) {
	t.Helper()
	s := mustOpen(t, o)
	ctx := context.Background()
	n, err := s.Namespace(ctx, testLayout(), "tenant", NamespaceOptions{Compression: CompressionS2})
	if err != nil {
		t.Fatal(err)
	}
	other, err := s.Namespace(ctx, testLayout(), "another tenant", NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for id := range blocks {
		b := exportBlockOf(id, size)
		space := n
		if id%4 == 3 {
			space = other
		}
		mustPut(t, space, b)
		mustFlush(t, s)
	}
	mustPut(t, n, blockOf(1000, 0, size))
	mustDrop(t, n, 1000)
	mustClose(t, s)
}

// exportBlockOf has the bytes of the block before it where id is odd, and
// compresses where it is divisible by 4.
func exportBlockOf(id, size int) PutBlock {
	p := exportContent(id, size)
	b := PutBlock{Hash: hashOf(id), Planes: []PlaneData{{Name: "k", Spans: [][]byte{p[:size/3]}}, {Name: "v", Spans: [][]byte{p[size/3:]}}}}
	if id > 0 {
		b.Parent = hashOf(id - 1)
	}
	return b
}

func exportContent(id, size int) []byte {
	if id%4 < 2 {
		return bytes.Repeat([]byte{byte(id / 4), 1, 2, byte(id / 1024)}, size)[:size]
	}
	return contentOf(id/2, 0, size)
}

func exportOf(t testing.TB, o Options, e ExportOptions) ([]byte, *ExportReport) {
	t.Helper()
	var out bytes.Buffer
	r, err := exportDir(context.Background(), "mem", &out, e, o.private)
	if err != nil {
		t.Fatalf("export: %v", err)
	}
	if r.FileBytes != int64(out.Len()) {
		t.Errorf("%d bytes are reported, %d written", r.FileBytes, out.Len())
	}
	return out.Bytes(), r
}

func importInto(o Options, file []byte, m ImportOptions) (*ImportReport, error) {
	return importDir(context.Background(), "mem", bytes.NewReader(file), o.CapacityBytes, m, o.private)
}

// emptyStore makes a store to import into.
func emptyStore(t testing.TB, identity byte) Options {
	t.Helper()
	o := exportOptions(vfs.NewMem(), identity)
	mustClose(t, mustOpen(t, o))
	return o
}

// wantImported reads each block by its tenant: present where it is to be, and
// then its own bytes.
func wantImported(t testing.TB, o Options, tenants [2]string, blocks, size int, want func(id int, there bool) bool) {
	t.Helper()
	s := mustOpen(t, o)
	defer mustClose(t, s)
	for id := range blocks {
		tenant := tenants[0]
		if id%4 == 3 {
			tenant = tenants[1]
		}
		n, err := s.Namespace(context.Background(), testLayout(), tenant, NamespaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		p, r := getBlock(t, n, id, size)
		if there := r.Status == StatusOK; !want(id, there) {
			t.Errorf("block %d: %v %v", id, r.Status, r.Err)
		} else if there && !bytes.Equal(p, exportContent(id, size)) {
			t.Errorf("block %d: WRONG BYTES with status OK", id)
		}
	}
}

var exportTenants = [2]string{"tenant", "another tenant"}

func allThere(_ int, there bool) bool { return there }

func TestExportImport(t *testing.T) {
	const blocks, size = 20, 70_000
	limit := func(o Options) Options {
		o.MaxBlockBytes, o.SegmentBytes = 128*kib, 512*kib
		return o
	}
	from := limit(exportOptions(vfs.NewMem(), 1))
	exportSource(t, from, blocks, size)
	file, r := exportOf(t, from, ExportOptions{})
	if r.Blocks != blocks || r.RawBytes != blocks*size || r.Namespaces != 2 || r.Damaged != 0 || r.Missing != 0 {
		t.Errorf("%+v", r)
	}
	check, err := CheckExport(context.Background(), bytes.NewReader(file), ImportOptions{})
	if err != nil || !check.Complete || check.Blocks != blocks || check.Stored != 0 {
		t.Errorf("check: %+v, %v", check, err)
	}
	to := limit(exportOptions(vfs.NewMem(), 2))
	mustClose(t, mustOpen(t, to))
	for round, want := range []int64{blocks, 0} { // the second time all of it exists
		m, err := importInto(to, file, ImportOptions{})
		if err != nil || !m.Complete || m.Stored != want || m.Existed != blocks-want || m.Differs != 0 || len(m.Namespaces) != 2 {
			t.Fatalf("import %d: %+v, %v", round, m, err)
		}
	}
	wantImported(t, to, exportTenants, blocks, size, allThere)
	again, _ := exportOf(t, to, ExportOptions{})
	if !bytes.Equal(again, file) {
		t.Error("the export of what was imported differs: something in it depends on the store")
	}
}

func TestExportSelected(t *testing.T) {
	const blocks, size = 12, 3000
	from := exportOptions(vfs.NewMem(), 1)
	exportSource(t, from, blocks, size)
	another := exportTenants[1]
	for _, c := range []struct {
		o      Selection
		blocks int64
	}{
		{Selection{}, 12},
		{Selection{Tenant: &another}, 3},
		{Selection{Namespaces: []uint32{1}}, 9},
		{Selection{Hashes: [][]byte{hashOf(1), hashOf(3), hashOf(99)}}, 2},
		{Selection{FirstSequence: 5}, 8},
		{Selection{EndSequence: 5}, 4},
	} {
		_, r := exportOf(t, from, ExportOptions{Selection: c.o})
		if r.Blocks != c.blocks {
			t.Errorf("%+v: %+v", c.o, r)
		}
	}
	_, first := exportOf(t, from, ExportOptions{Selection: Selection{EndSequence: 7}})
	_, rest := exportOf(t, from, ExportOptions{Selection: Selection{FirstSequence: first.NextSequence}})
	if first.Blocks+rest.Blocks != blocks {
		t.Errorf("%d and %d of %d blocks", first.Blocks, rest.Blocks, blocks)
	}
}

// TestExportAfterKill: what the log knows and the index does not is exported
// too, and nothing in the directory changes.
func TestExportAfterKill(t *testing.T) {
	mem := vfs.NewMem()
	o := exportOptions(mem, 1)
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	for id := range 4 {
		mustPut(t, n, exportBlockOf(id, 3000))
	}
	killed := exportOptions(mem.CrashClone(vfs.CrashOptions{KeepAll: true}), 1)
	mustClose(t, s)
	if _, r := exportOf(t, killed, ExportOptions{}); r.Blocks != 4 {
		t.Errorf("%+v", r)
	}
}

// TestFaultExportDamagedBlock: a block that does not verify is left out, said,
// and the others are exported.
func TestFaultExportDamagedBlock(t *testing.T) {
	y := faulttest.New(t)
	const blocks, size = 8, 3000
	mem := vfs.NewMem()
	from := exportOptions(mem, 1)
	exportSource(t, from, blocks, size)
	s := mustOpen(t, from)
	found, err := s.lookup(context.Background(), []index.Key{{Namespace: 1, Hash: string(hashOf(2))}}, false)
	mustClose(t, s)
	if err != nil || !found[0].ok {
		t.Fatal(err)
	}
	f := y.Try("a flipped byte in a block that is exported")
	at := found[0].entry.Address
	flipByte(t, mem, disk.SegmentName(at.Segment), at.Offset()+disk.PageBytes+10)
	f.Fire()
	file, r := exportOf(t, from, ExportOptions{})
	if r.Damaged != 1 || len(r.Bad) != 1 || r.Bad[0].Hash != fmt.Sprintf("%x", hashOf(2)) || r.Blocks != blocks-1 {
		t.Errorf("%+v", r)
	}
	to := emptyStore(t, 2)
	if m, err := importInto(to, file, ImportOptions{}); err != nil || m.Stored != blocks-1 {
		t.Errorf("%+v, %v", m, err)
	}
	wantImported(t, to, exportTenants, blocks, size, func(id int, there bool) bool { return there == (id != 2) })
	f.Survive()
}

// exportSample is a small export file.
func exportSample(t testing.TB) (file []byte, blocks, size int) {
	blocks, size = 4, 900
	from := exportOptions(vfs.NewMem(), 1)
	exportSource(t, from, blocks, size)
	file, _ = exportOf(t, from, ExportOptions{})
	return file, blocks, size
}

// TestFaultExportFlip flips each byte of an export file: the import says so,
// and what it stored before is right.
func TestFaultExportFlip(t *testing.T) {
	y := faulttest.New(t)
	file, blocks, size := exportSample(t)
	stores := 509
	if fullTests {
		stores = 7
	} else if testing.Short() {
		stores = 2003
	}
	for off := range file {
		f := y.Try(fmt.Sprintf("byte %d of an export file flipped", off))
		bad := slices.Clone(file)
		bad[off] ^= flipMask(int64(off))
		f.Fire()
		m, err := CheckExport(context.Background(), bytes.NewReader(bad), ImportOptions{})
		if !errors.Is(err, ErrCorrupt) || m != nil && m.Complete {
			t.Errorf("byte %d: %+v, %v", off, m, err)
		}
		if off%stores == 0 {
			to := emptyStore(t, 2)
			if _, err := importInto(to, bad, ImportOptions{}); !errors.Is(err, ErrCorrupt) {
				t.Errorf("byte %d: import: %v", off, err)
			}
			wantImported(t, to, exportTenants, blocks, size, func(int, bool) bool { return true })
		}
		f.Survive()
		if off%500 == 499 {
			y.Settle()
		}
	}
}

// TestFaultExportCut: a file that was cut short, at any byte, is never taken
// for whole.
func TestFaultExportCut(t *testing.T) {
	y := faulttest.New(t)
	file, _, _ := exportSample(t)
	for n := range file {
		f := y.Try(fmt.Sprintf("an export file of which %d bytes are left", n))
		f.Fire()
		if m, err := CheckExport(context.Background(), bytes.NewReader(file[:n]), ImportOptions{}); !errors.Is(err, ErrCorrupt) || m != nil && m.Complete {
			t.Errorf("%d bytes: %+v, %v", n, m, err)
		}
		f.Survive()
		if n%500 == 499 {
			y.Settle()
		}
	}
}

// records cuts a file behind its header into records.
func exportRecords(t testing.TB, file []byte) (out [][]byte) {
	t.Helper()
	r, err := newExportReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	for at := r.offset; ; at = r.offset {
		_, err := r.next()
		out = append(out, file[at:r.offset])
		if err != nil {
			return out
		}
	}
}

// TestFaultExportSpliced puts records twice, leaves them out, swaps them, and
// lays files end to end.
func TestFaultExportSpliced(t *testing.T) {
	y := faulttest.New(t)
	file, _, _ := exportSample(t)
	recs := exportRecords(t, file)
	splice := func(order ...int) []byte {
		out := slices.Clone(file[:exportHeaderBytes])
		for _, i := range order {
			out = append(out, recs[i]...)
		}
		return out
	}
	all := make([]int, len(recs))
	for i := range all {
		all[i] = i
	}
	if !bytes.Equal(splice(all...), file) {
		t.Fatal("the records are not the file")
	}
	bad := map[string][]byte{"two files end to end": append(slices.Clone(file), file...), "a byte behind the end": append(slices.Clone(file), 0)}
	for i := range recs {
		bad[fmt.Sprintf("record %d twice", i)] = splice(slices.Insert(slices.Clone(all), i, i)...)
		bad[fmt.Sprintf("record %d missing", i)] = splice(slices.Delete(slices.Clone(all), i, i+1)...)
		if i > 0 {
			swapped := slices.Clone(all)
			swapped[i], swapped[i-1] = swapped[i-1], swapped[i]
			bad[fmt.Sprintf("records %d and %d swapped", i-1, i)] = splice(swapped...)
		}
	}
	for name, file := range bad {
		f := y.Try(name)
		f.Fire()
		if m, err := CheckExport(context.Background(), bytes.NewReader(file), ImportOptions{}); !errors.Is(err, ErrCorrupt) || m != nil && m.Complete {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
		f.Survive()
	}
}

// TestExportLengths: a length in a file takes no more memory than the file
// has bytes, by a wide margin (field case 44).
func TestExportLengths(t *testing.T) {
	b := &exportedBlock{hash: hashOf(1)}
	for range 256 {
		b.planeBytes = append(b.planeBytes, MaxBlockBytes/256)
		for range MaxBlockBytes / 256 / ChunkBytes {
			b.chunkSums = append(b.chunkSums, 0)
		}
	}
	b.contentID = sums.Content(b.planeBytes, b.chunkSums)
	meta := b.encode()
	space := (&exportedNamespace{tenant: "t", layout: testLayout()}).encode()
	huge := slices.Concat(exportHeader(), exportHead(exportNamespace, 0, space), space, exportHead(exportBlock, 1, meta), meta)
	claim := exportHead(exportNamespace, 0, nil)
	claim[7] = 0xff // a meta of 4 GiB
	for name, file := range map[string][]byte{"a block": huge, "a record": slices.Concat(exportHeader(), claim)} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := CheckExport(context.Background(), bytes.NewReader(file), ImportOptions{}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
			t.Errorf("%s of %d bytes took %d bytes of memory", name, len(file), n)
		}
	}
}

func TestImportLayouts(t *testing.T) {
	file, blocks, size := exportSample(t)
	to := emptyStore(t, 2)
	s := mustOpen(t, to)
	near := testLayout()
	near.Planes[1].SizeBytes = 77
	if _, err := s.Namespace(context.Background(), near, "mine", NamespaceOptions{}); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	mine := "mine"
	if m, err := importInto(to, file, ImportOptions{Tenant: &mine, RequireMatch: true}); !errors.Is(err, ErrLayoutMismatch) || m.Stored != 0 {
		t.Errorf("a layout that is near: %+v, %v", m, err)
	}
	m, err := importInto(to, file, ImportOptions{Tenant: &mine})
	if err != nil || m.Stored != int64(blocks) || m.Namespaces[0].Tenant != mine || len(m.Namespaces[0].Differences) == 0 {
		t.Errorf("%+v, %v", m, err)
	}
	wantImported(t, to, [2]string{mine, mine}, blocks, size, allThere)
}

// TestImportDiffers: the first put wins, and it is said.
func TestImportDiffers(t *testing.T) {
	file, blocks, size := exportSample(t)
	to := emptyStore(t, 2)
	s := mustOpen(t, to)
	mustPut(t, mustSpace(t, s), blockOf(0, 9, size))
	mustClose(t, s)
	m, err := importInto(to, file, ImportOptions{})
	if err != nil || m.Existed != 1 || m.Differs != 1 || m.Stored != int64(blocks-1) {
		t.Errorf("%+v, %v", m, err)
	}
}

func TestImportRefuses(t *testing.T) {
	newer := exportHeader()
	newer[8] = 2
	copy(newer[56:], exportHead(0, 0, nil)) // any sum
	for name, c := range map[string]struct {
		file []byte
		want error
	}{
		"nothing":      {nil, ErrCorrupt},
		"another file": {bytes.Repeat([]byte("x"), 200), ErrCorrupt},
		"no sum":       {newer, ErrCorrupt},
		"a version":    {resum(newer), ErrUnsupported},
		"a feature":    {resum(func() []byte { p := exportHeader(); p[12] = 1; return p }()), ErrUnsupported},
	} {
		if _, err := CheckExport(context.Background(), bytes.NewReader(c.file), ImportOptions{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// resum gives a header its sum.
func resum(header []byte) []byte {
	p := slices.Clone(header[:exportHeaderBytes])
	sum := exportSum(p[:exportHeaderBytes-8])
	for i := range 8 {
		p[exportHeaderBytes-8+i] = byte(sum >> (8 * i))
	}
	return p
}

// FuzzImport: whatever is read, there is an error or a file that is whole.
func FuzzImport(f *testing.F) {
	file, _, _ := exportSample(f)
	f.Add(file)
	f.Add(file[:len(file)-30])
	f.Add(exportHeader())
	f.Fuzz(func(t *testing.T, p []byte) {
		m, err := CheckExport(context.Background(), bytes.NewReader(p), ImportOptions{})
		if err == nil && (!m.Complete || m.RawBytes > int64(len(p))) {
			t.Fatalf("%+v of %d bytes", m, len(p))
		}
		if err != nil && !errors.Is(err, ErrCorrupt) && !errors.Is(err, ErrUnsupported) {
			t.Fatal(err)
		}
	})
}
