package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

func mustVerify(t testing.TB, fs vfs.FS) *VerifyReport {
	t.Helper()
	r, err := verify(context.Background(), "mem", VerifyOptions{}, testOptions(fs).private)
	if err != nil {
		t.Fatalf("verify: %v", err)
	}
	if r.Damaged < maxDamageListed && r.Damaged != int64(len(r.Damage)) {
		t.Fatalf("%d findings counted, %d listed", r.Damaged, len(r.Damage))
	}
	s := r.Segments
	if sum := s.HeaderBytes + s.LiveBytes + s.AliasBytes + s.DeadBytes + s.GapBytes + s.FooterBytes + s.TailBytes; r.Damaged == 0 && sum != s.FileBytes {
		t.Errorf("the parts add up to %d bytes of %d: %+v", sum, s.FileBytes, s)
	}
	return r
}

func wantClean(t testing.TB, fs vfs.FS) *VerifyReport {
	t.Helper()
	r := mustVerify(t, fs)
	if r.Damaged != 0 {
		t.Fatalf("%d findings in a sound store, the first: %v", r.Damaged, r.Damage[0])
	}
	return r
}

// verifySizes are the sizes of blocks by id; 5 and 8 share the bytes of 3.
var verifySizes = map[int]int{1: 3, 2: 4095, 3: 9000, 4: 64 << 10, 7: 20000}

// verifyStore makes a closed store with a sealed segment, one that is not,
// aliases within and across, and dropped blocks: 9 before the segment was
// sealed, 11 after, 10 in the unsealed one.
func verifyStore(t testing.TB) *vfs.Mem {
	t.Helper()
	fs := vfs.NewMem()
	s := mustOpen(t, testOptions(fs))
	n := mustSpace(t, s)
	for _, id := range []int{1, 2, 3, 4} {
		mustPut(t, n, blockOf(id, 0, verifySizes[id]))
	}
	mustPut(t, n, blockOf(9, 0, 5000))
	mustPut(t, n, blockOf(11, 0, 6000))
	mustFlush(t, s)
	putAlias(t, n, 5, 3)
	verifyDrop(t, n, 9)
	mustFlush(t, s)
	mustClose(t, s)
	s = mustOpen(t, testOptions(fs)) // seals the first segment
	n = mustSpace(t, s)
	mustPut(t, n, blockOf(7, 0, verifySizes[7]))
	mustPut(t, n, blockOf(10, 0, 7000))
	putAlias(t, n, 8, 3)
	mustFlush(t, s)
	verifyDrop(t, n, 10)
	verifyDrop(t, n, 11)
	mustClose(t, s)
	return fs
}

func putAlias(t testing.TB, n *Namespace, id, of int) {
	t.Helper()
	b := blockOf(of, 0, verifySizes[of])
	b.Hash = hashOf(id)
	if r := mustPut(t, n, b); !r.Shared {
		t.Fatalf("block %d does not share with %d: %+v", id, of, r)
	}
}

func verifyDrop(t testing.TB, n *Namespace, id int) {
	t.Helper()
	if r := n.Drop(context.Background(), [][]byte{hashOf(id)})[0]; r.Status != StatusOK {
		t.Fatalf("drop %d: %+v", id, r)
	}
}

func TestVerifyClean(t *testing.T) {
	fs := verifyStore(t)
	before := fs.CrashClone(vfs.CrashOptions{KeepAll: true})
	r := wantClean(t, fs)
	wantSameTree(t, before, fs)
	s := r.Segments
	if r.Blocks != 7 || s.Files != 2 || s.Sealed != 1 || s.LiveExtents != 5 || s.AliasExtents != 2 || s.DeadExtents != 3 {
		t.Errorf("counts: %d blocks, %+v", r.Blocks, s)
	}
	if s.TornExtents != 0 || s.NonzeroUnusedBytes != 0 || s.Tombstones != 3 || s.TailBytes == 0 {
		t.Errorf("counts: %+v", s)
	}
	if x := r.Index; x.Keys != 7 || x.Aliases != 2 || x.References != 9 || x.Contents != 5 || x.Rebuild != "" || x.Applied == 0 {
		t.Errorf("index: %+v", x)
	}
	if l := r.Log; l.Files != 1 || l.Records == 0 || l.Pending != 0 || l.TornBytes != 0 || l.DurableMark == 0 || l.DurableMark > l.End {
		t.Errorf("log: %+v", l)
	}
	if len(r.Notes) != 0 {
		t.Errorf("notes: %q", r.Notes)
	}
	// The store opens as if nobody had looked.
	st := mustOpen(t, testOptions(fs))
	defer mustClose(t, st)
	if st.rebuilds != 0 {
		t.Error("the index had to be rebuilt")
	}
	for id, size := range verifySizes {
		wantBlock(t, mustSpace(t, st), id, 0, size)
	}
}

func TestVerifyRefuses(t *testing.T) {
	fs := verifyStore(t)
	s := mustOpen(t, testOptions(fs))
	if _, err := verify(context.Background(), "mem", VerifyOptions{}, testOptions(fs).private); !errors.Is(err, ErrLocked) {
		t.Errorf("of a store in use: %v", err)
	}
	mustClose(t, s)
	wantClean(t, fs)
	if _, err := verify(context.Background(), "mem", VerifyOptions{Workers: -1}, testOptions(fs).private); !errors.Is(err, ErrInvalid) {
		t.Errorf("-1 workers: %v", err)
	}
	if _, err := Verify(context.Background(), t.TempDir(), VerifyOptions{}); !errors.Is(err, ErrNoStore) {
		t.Errorf("of an empty directory: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := verify(ctx, "mem", VerifyOptions{}, testOptions(fs).private); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that ended: %v", err)
	}
}

func TestVerifyProgress(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent()) // a failed index of another test keeps its own
	fs := verifyStore(t)
	last, calls := int64(0), 0
	o := VerifyOptions{Workers: 2, Progress: func(done, total int64) {
		if done < last || done > total {
			t.Errorf("%d of %d after %d", done, total, last)
		}
		last, calls = done, calls+1
	}}
	r, err := verify(context.Background(), "mem", o, testOptions(fs).private)
	if err != nil {
		t.Fatal(err)
	}
	if last != r.Segments.FileBytes || calls < 2 {
		t.Errorf("ended at %d of %d after %d calls", last, r.Segments.FileBytes, calls)
	}
}

// wantSameTree holds that two trees have equal names and bytes.
func wantSameTree(t testing.TB, a, b vfs.FS) {
	t.Helper()
	x, y := treeOf(t, a, "."), treeOf(t, b, ".")
	for name, content := range x {
		if other, ok := y[name]; !ok || other != content {
			t.Errorf("%s: was changed or removed", name)
		}
	}
	for name := range y {
		if _, ok := x[name]; !ok {
			t.Errorf("%s: was made", name)
		}
	}
}

func treeOf(t testing.TB, fs vfs.FS, dir string) map[string]string {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, n := range names {
		name := strings.TrimPrefix(dir+"/"+n, "./")
		i, err := fs.Stat(name)
		switch {
		case err != nil:
			t.Fatal(err)
		case i.IsDir:
			for k, v := range treeOf(t, fs, name) {
				out[k] = v
			}
		case i.SizeBytes > 0:
			out[name] = string(readRange(t, fs, name, 0, i.SizeBytes))
		default:
			out[name] = ""
		}
	}
	return out
}

// flip changes a bit of a closed store.
func flipAt(t testing.TB, fs vfs.FS, name string, off int64) {
	t.Helper()
	f, err := fs.Open(name, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := make([]byte, 1)
	if _, err := f.ReadAt(p, off); err != nil {
		t.Fatal(err)
	}
	p[0] ^= 0x40
	if _, err := f.WriteAt(p, off); err != nil {
		t.Fatal(err)
	}
}

// wantOne verifies and wants exactly one finding.
func wantOne(t testing.TB, fs vfs.FS, want Damage) {
	t.Helper()
	r := mustVerify(t, fs)
	if r.Damaged != 1 {
		t.Fatalf("%d findings: %v", r.Damaged, r.Damage)
	}
	got := r.Damage[0]
	if got.Kind != want.Kind || got.File != want.File || got.Offset != want.Offset || got.Hash != want.Hash || got.Blocks != want.Blocks || got.Reason == "" {
		t.Errorf("found %+v\nwant %+v", got, want)
	}
}

func mustLocate(t testing.TB, fs vfs.FS, id int) *Location {
	t.Helper()
	l, err := testLocate(fs, id)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func hexOf(id int) string { return fmt.Sprintf("%x", hashOf(id)) }

func TestVerifyBlocks(t *testing.T) {
	sound := verifyStore(t)
	l1, l3, l4, l7, l8 := mustLocate(t, sound, 1), mustLocate(t, sound, 3), mustLocate(t, sound, 4), mustLocate(t, sound, 7), mustLocate(t, sound, 8)
	dead := allExtents(t, sound)[string(hashOf(11))]
	for name, c := range map[string]struct {
		file string
		off  int64
		want Damage
	}{
		"payload":           {l4.File, l4.PayloadOffset + 30000, Damage{Kind: DamageBlock, Offset: l4.PayloadOffset + 24576, Hash: hexOf(4), Blocks: 1}},
		"payload, unsealed": {l7.File, l7.PayloadOffset + 17, Damage{Kind: DamageBlock, Offset: l7.PayloadOffset, Hash: hexOf(7), Blocks: 1}},
		"shared payload":    {l3.File, l3.PayloadOffset, Damage{Kind: DamageBlock, Offset: l3.PayloadOffset, Hash: hexOf(3), Blocks: 3}},
		"header":            {l4.File, l4.HeaderOffset + 200, Damage{Kind: DamageBlock, Offset: l4.HeaderOffset, Hash: hexOf(4), Blocks: 1}},
		"header's magic":    {l7.File, l7.HeaderOffset, Damage{Kind: DamageBlock, Offset: l7.HeaderOffset, Hash: hexOf(7), Blocks: 1}},
		"alias":             {l8.AliasFile, l8.AliasOffset + 90, Damage{Kind: DamageAlias, Offset: l8.AliasOffset, Hash: hexOf(8)}},
		"padding":           {l1.File, l1.PayloadOffset + 9, Damage{Kind: DamagePadding, Offset: l1.PayloadOffset + 1, Hash: hexOf(1), Blocks: 1}},
		"dead extent":       {l1.File, dead.Offset() + 4096, Damage{Kind: DamageDead, Offset: dead.Offset() + 4096, Hash: hexOf(11)}},
	} {
		t.Run(name, func(t *testing.T) {
			fs := sound.CrashClone(vfs.CrashOptions{KeepAll: true})
			flipAt(t, fs, c.file, c.off)
			c.want.File = c.file
			wantOne(t, fs, c.want)
		})
	}
}

// allExtents finds extents by block, dropped ones too.
func allExtents(t testing.TB, fs vfs.FS) map[string]disk.Address {
	t.Helper()
	f, err := openOffline("mem", testOptions(fs).private)
	if err != nil {
		t.Fatal(err)
	}
	defer f.close()
	all := map[string]disk.Address{}
	for _, i := range f.s.vol.Segments() {
		err := f.s.vol.ScanSegment(context.Background(), i.ID, func(e *disk.Extent, _ uint64, at disk.Address) error {
			all[string(e.Hash)] = at
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// TestVerifyTorn: damage that looks like what a power cut leaves is counted
// apart.
func TestVerifyTorn(t *testing.T) {
	fs := verifyStore(t)
	ten := allExtents(t, fs)[string(hashOf(10))]
	flipAt(t, fs, disk.SegmentName(ten.Segment), ten.Offset()+4096)
	r := wantClean(t, fs)
	if r.Segments.TornExtents != 1 {
		t.Errorf("%+v", r.Segments)
	}
	i, err := fs.Stat(disk.SegmentName(ten.Segment))
	if err != nil {
		t.Fatal(err)
	}
	flipAt(t, fs, disk.SegmentName(ten.Segment), i.SizeBytes-1)
	if r := wantClean(t, fs); r.Segments.NonzeroUnusedBytes != disk.PageBytes {
		t.Errorf("%+v", r.Segments)
	}
}

func TestVerifyArtifacts(t *testing.T) {
	sound := verifyStore(t)
	sealed, open := mustLocate(t, sound, 1), mustLocate(t, sound, 7)
	i, err := sound.Stat(sealed.File)
	if err != nil {
		t.Fatal(err)
	}
	footer := i.SizeBytes - 4096
	log := onlyFile(t, sound, logDir, ".wal")
	for name, c := range map[string]struct {
		file string
		off  int64
		want Damage
	}{
		"STORE":             {meta.StoreFile, 100, Damage{Kind: DamageStore, Offset: -1}},
		"its copy":          {meta.StoreCopyFile, 300, Damage{Kind: DamageStore, Offset: -1}},
		"NAMESPACES":        {meta.NamespacesFile, 60, Damage{Kind: DamageNamespaces, Offset: -1}},
		"copy of it":        {meta.NamespacesCopyFile, 70, Damage{Kind: DamageNamespaces, Offset: -1}},
		"log":               {log, 4100, Damage{Kind: DamageLog, Offset: 4096}},
		"log header":        {log, 50, Damage{Kind: DamageLog, Offset: 0}},
		"segment header":    {sealed.File, 60, Damage{Kind: DamageSegment, Offset: 0}},
		"unsealed's header": {open.File, 3000, Damage{Kind: DamageSegment, Offset: 0}},
		"footer":            {sealed.File, footer + 100, Damage{Kind: DamageFooter, Offset: footer}},
		"footer's magic":    {sealed.File, footer, Damage{Kind: DamageFooter, Offset: footer}},
		"trailer":           {sealed.File, i.SizeBytes - 5, Damage{Kind: DamageFooter, Offset: footer}},
		"trailer's magic":   {sealed.File, i.SizeBytes - 64, Damage{Kind: DamageFooter, Offset: footer}},
		"tombstone":         {disk.SidecarName(sealed.Segment), 512 + 40, Damage{Kind: DamageTombstones, Offset: 512}},
		"tombstone header":  {disk.SidecarName(open.Segment), 33, Damage{Kind: DamageTombstones, Offset: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			fs := sound.CrashClone(vfs.CrashOptions{KeepAll: true})
			flipAt(t, fs, c.file, c.off)
			c.want.File = c.file
			wantOne(t, fs, c.want)
		})
	}
}

func onlyFile(t testing.TB, fs vfs.FS, dir, suffix string) string {
	t.Helper()
	names, err := fs.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := ""
	for _, n := range names {
		if strings.HasSuffix(n, suffix) {
			if found != "" {
				t.Fatalf("more than one %s in %s: %v", suffix, dir, names)
			}
			found = dir + "/" + n
		}
	}
	if found == "" {
		t.Fatalf("no %s in %s: %v", suffix, dir, names)
	}
	return found
}
