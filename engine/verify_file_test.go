package engine

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

func kindsOf(r *VerifyReport) map[DamageKind]int {
	kinds := map[DamageKind]int{}
	for _, d := range r.Damage {
		kinds[d.Kind]++
	}
	return kinds
}

// TestVerifyCut: a segment cut short costs the blocks behind the cut, each
// named once, and its end.
func TestVerifyCut(t *testing.T) {
	fs := verifyStore(t)
	l3, l4 := mustLocate(t, fs, 3), mustLocate(t, fs, 4)
	f, err := fs.Open(l4.File, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(l4.PayloadOffset+100), f.Close()); err != nil {
		t.Fatal(err)
	}
	r := mustVerify(t, fs)
	k := kindsOf(r)
	// Behind block 4 lie the alias 5 and the dead extents 9 and 11; without
	// the footer nothing is known of the latter.
	if k[DamageBlock] != 1 || k[DamageAlias] != 1 || k[DamageFooter] != 1 || len(k) != 3 {
		t.Errorf("%v", r.Damage)
	}
	for _, d := range r.Damage {
		if d.Kind == DamageBlock && (d.Hash != hexOf(4) || d.Offset < l4.PayloadOffset || !strings.Contains(d.Reason, "cut short")) {
			t.Errorf("%v", d)
		}
	}
	if l3.PayloadOffset > l4.PayloadOffset {
		t.Error("the test cuts more than it means to")
	}
}

func TestVerifyFilesMissing(t *testing.T) {
	sound := verifyStore(t)
	l := mustLocate(t, sound, 7)
	fs := sound.CrashClone(vfs.CrashOptions{KeepAll: true})
	if err := fs.Remove(disk.SidecarName(l.Segment)); err != nil {
		t.Fatal(err)
	}
	wantOne(t, fs, Damage{Kind: DamageTombstones, File: disk.SidecarName(l.Segment), Offset: -1})
	fs = sound.CrashClone(vfs.CrashOptions{KeepAll: true})
	if err := fs.Remove(l.File); err != nil {
		t.Fatal(err)
	}
	r := mustVerify(t, fs)
	k := kindsOf(r)
	if k[DamageBlock] != 1 || k[DamageAlias] != 1 || len(k) != 2 { // 7, and the own header of 8
		t.Errorf("%v", r.Damage)
	}
	fs = sound.CrashClone(vfs.CrashOptions{KeepAll: true})
	if err := fs.Remove(onlyFile(t, fs, logDir, ".wal")); err != nil {
		t.Fatal(err)
	}
	r = mustVerify(t, fs)
	if r.Damaged != 1 || r.Damage[0].Kind != DamageLog || !strings.Contains(r.Damage[0].Reason, "the log ends at 0") || r.Blocks != 7 {
		t.Errorf("%d blocks, %v", r.Blocks, r.Damage)
	}
}

// TestVerifyUnreadable: a device that fails is not taken for damage of its
// bytes, and what else can be read is verified.
func TestVerifyUnreadable(t *testing.T) {
	mem := verifyStore(t)
	l1, l4, l7 := mustLocate(t, mem, 1), mustLocate(t, mem, 4), mustLocate(t, mem, 7)
	flipAt(t, mem, l7.File, l7.PayloadOffset)
	flipAt(t, mem, l1.File, l1.PayloadOffset)
	fs := vfs.WithHook(mem, func(op vfs.Op) error {
		if op.Name == l4.File && op.Kind == vfs.OpRead && op.Offset < l4.PayloadOffset+9000 && op.Offset+op.Length > l4.PayloadOffset+8000 {
			return syscall.EIO
		}
		return nil
	})
	r := mustVerify(t, fs)
	k := kindsOf(r)
	if k[DamageUnreadable] != 1 || k[DamageBlock] != 2 || len(k) != 2 {
		t.Fatalf("%v", r.Damage)
	}
	for _, d := range r.Damage {
		if d.Kind == DamageUnreadable && (d.Hash != hexOf(4) || !strings.Contains(d.Reason, syscall.EIO.Error())) {
			t.Errorf("%v", d)
		}
	}
}

func TestVerifyStrange(t *testing.T) {
	fs := verifyStore(t)
	for _, name := range []string{"notes.txt", "segments/01/readme", "wal/x"} {
		f, err := fs.Open(name, vfs.Create)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r := wantClean(t, fs)
	if all := strings.Join(r.Notes, "\n"); !strings.Contains(all, "3 names are not the store's") || !strings.Contains(all, "notes.txt") {
		t.Errorf("%q", r.Notes)
	}
}

// TestVerifyQuarantined: a block that was found bad and taken out is no news.
func TestVerifyQuarantined(t *testing.T) {
	fs := verifyStore(t)
	l := mustLocate(t, fs, 4)
	flipAt(t, fs, l.File, l.PayloadOffset)
	s := mustOpen(t, testOptions(fs))
	wantStatus(t, mustSpace(t, s), 4, verifySizes[4], StatusCorrupt)
	mustClose(t, s)
	r := wantClean(t, fs)
	if r.Segments.QuarantinedExtents != 1 || r.Blocks != 6 || !strings.Contains(strings.Join(r.Notes, "\n"), "found bad earlier") {
		t.Errorf("%+v, %q", r, r.Notes)
	}
}

// TestVerifyCutOff: what Open completes is told and no damage.
func TestVerifyCutOff(t *testing.T) {
	fs := verifyStore(t)
	old := string(readRange(t, fs, "NAMESPACES.2", 0, fileBytes(t, fs, "NAMESPACES.2")))
	s := mustOpen(t, testOptions(fs))
	if _, err := mustSpace(t, s).BumpEpoch(context.Background()); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	f, err := fs.Open("NAMESPACES.2", vfs.ReadWrite|vfs.Trunc)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(old), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r := wantClean(t, fs)
	if r.Blocks != 0 || r.Segments.LiveExtents != 0 || !strings.Contains(strings.Join(r.Notes, "\n"), "NAMESPACES.2: generation") {
		t.Errorf("%d blocks, %+v, %q", r.Blocks, r.Segments, r.Notes)
	}
}

func fileBytes(t testing.TB, fs vfs.FS, name string) int64 {
	t.Helper()
	i, err := fs.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return i.SizeBytes
}

// directRotFS flips a byte of one file in what is read past the page cache.
type directRotFS struct {
	vfs.FS
	name string
	at   int64
}

func (d *directRotFS) Open(name string, flags vfs.OpenFlag) (vfs.File, error) {
	f, err := d.FS.Open(name, flags)
	if err != nil || name != d.name || flags&vfs.Direct == 0 {
		return f, err
	}
	return &directRotFile{File: f, at: d.at}, nil
}

type directRotFile struct {
	vfs.File
	at int64
}

func (f *directRotFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if at := f.at - off; at >= 0 && at < int64(n) {
		p[at] ^= 1
	}
	return n, err
}

// TestVerifyDistrustsPath: wrong bytes that only one path returns are no
// damage of the store and are told; damage that both see is, for all that.
func TestVerifyDistrustsPath(t *testing.T) {
	mem := verifyStore(t)
	l1, l4 := mustLocate(t, mem, 1), mustLocate(t, mem, 4)
	fs := &directRotFS{FS: mem, name: l4.File, at: l4.PayloadOffset + 100}
	r := mustVerify(t, fs)
	if r.Damaged != 0 || !strings.Contains(strings.Join(r.Notes, "\n"), l4.File+": reads past the page cache returned wrong bytes") {
		t.Errorf("%v, %q", r.Damage, r.Notes)
	}
	flipAt(t, mem, l1.File, l1.PayloadOffset)
	r = mustVerify(t, fs)
	if k := kindsOf(r); k[DamageBlock] != 1 || len(k) != 1 || r.Damage[0].Hash != hexOf(1) {
		t.Errorf("%v, %q", r.Damage, r.Notes)
	}
}
