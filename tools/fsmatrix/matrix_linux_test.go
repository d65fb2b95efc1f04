package fsmatrix

import (
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// choices are the values of Options.Path.
var choices = []engine.PathChoice{engine.PathAuto, engine.PathUring, engine.PathPread, engine.PathBuffered}

// place is a file system and what a probe has to say of it.
type place struct {
	name  string
	make  func(*testing.T) string
	fs    string // as the probe names it
	align int64  // the least of offset and length in direct I/O
	// memory: it keeps its files there.
	memory bool
}

var places = []place{
	{name: "ext4", make: func(t *testing.T) string { return diskFS(t, "ext4", 512) }, fs: "ext4", align: 512},
	{name: "xfs", make: func(t *testing.T) string { return diskFS(t, "xfs", 512) }, fs: "xfs", align: 512},
	{name: "btrfs", make: func(t *testing.T) string { return diskFS(t, "btrfs", 512) }, fs: "btrfs", align: 512},
	{name: "ext4 of 4096-byte sectors", make: func(t *testing.T) string { return diskFS(t, "ext4", 4096) }, fs: "ext4", align: 4096},
	{name: "xfs of 4096-byte sectors", make: func(t *testing.T) string { return diskFS(t, "xfs", 4096) }, fs: "xfs", align: 4096},
	{name: "tmpfs", make: func(t *testing.T) string { needRoot(t); return tmpfs(t, 256) }, fs: "tmpfs", align: 512, memory: true},
	{name: "overlay on tmpfs", make: func(t *testing.T) string { needRoot(t); return overlayFS(t, tmpfs(t, 256)) }, fs: "overlay", align: 512},
	{name: "overlay on ext4", make: func(t *testing.T) string { return overlayFS(t, diskFS(t, "ext4", 512)) }, fs: "overlay", align: 512},
	{name: "zram", make: zramFS, fs: "ext4", align: 4096},
}

// TestFileSystems: the store lives its life on each file system by each path,
// and the probe's report says what is true there.
func TestFileSystems(t *testing.T) {
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			at := p.make(t)
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			p.probe(t, ctx, at)
			cancel()
			var auto *disk.ProbeReport
			for _, path := range choices {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				dir := filepath.Join(at, "store")
				r, err := exercise(ctx, dir, path, full || path == engine.PathAuto)
				cancel()
				switch {
				case path == engine.PathAuto && err == nil:
					auto = r.Probe
					p.check(t, r)
				case auto != nil && !auto.Proven(disk.PathName(path)) && errors.Is(err, engine.ErrPathRefused):
					if why := auto.Path(disk.PathName(path)).Reason; !strings.Contains(err.Error(), why) {
						t.Errorf("%s: %v does not tell %q", path, err, why)
					}
				case err != nil:
					t.Errorf("%s: %v", path, err)
				case r.PathRead != string(path):
					t.Errorf("%s was asked for, reads went by %s", path, r.PathRead)
				}
				remove(t, dir)
			}
		})
	}
}

// check compares a report with what is known of the place.
func (p place) check(t *testing.T, r *report) {
	t.Helper()
	got := r.Probe
	t.Log(got.Summary())
	if got.Filesystem.Type != p.fs || got.Filesystem.Memory != p.memory || got.Filesystem.Network {
		t.Errorf("file system %+v", got.Filesystem)
	}
	if got.Chosen == "" || string(got.Chosen) != r.PathRead || got.ChosenBecause == "" {
		t.Errorf("chosen %q because %q, read by %q", got.Chosen, got.ChosenBecause, r.PathRead)
	}
	if !got.Proven(disk.PathBuffered) {
		t.Errorf("buffered: %+v", got.Path(disk.PathBuffered))
	}
	for _, name := range []disk.PathName{disk.PathPread, disk.PathUring} {
		path := got.Path(name)
		if name == disk.PathUring && !got.Uring.Setup {
			if path.State == disk.PathProven || path.Reason == "" {
				t.Errorf("without a ring: %+v", path)
			}
			continue
		}
		if path.State != disk.PathProven || path.Reason != "" {
			t.Errorf("%+v, want it proven", path)
		}
	}
}

// probe is a full one, as an operator runs it.
func (p place) probe(t *testing.T, ctx context.Context, dir string) {
	t.Helper()
	fs, err := vfs.OpenOS(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	got, err := disk.Probe(ctx, disk.ProbeOptions{FS: fs})
	if err != nil {
		t.Fatalf("probe: %v", err)
	}
	d := got.Direct
	if d.OffsetBytes != p.align || d.LengthBytes != p.align || d.MemBytes == 0 || d.MemBytes > p.align {
		t.Errorf("alignments %+v, want %d", d, p.align)
	}
	if f := got.File; !f.HolesReadZero || !f.DropsCache || !f.StartsWriteback || f.SyncUs <= 0 {
		t.Errorf("files %+v", f)
	}
	t.Logf("%+v", got.File)
}

func remove(t *testing.T, dir string) {
	t.Helper()
	command(t, "rm", "-rf", dir)
}

// TestStoreMovesToLargerSectors: a store that was made where sectors have 512
// bytes opens on a device with 4096-byte ones, probes anew, and has its blocks.
func TestStoreMovesToLargerSectors(t *testing.T) {
	needProgram(t, "cp")
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			small, large := diskFS(t, kind, 512), diskFS(t, kind, 4096)
			from, to := filepath.Join(small, "store"), filepath.Join(large, "store")
			r, err := firstLife(ctx, from, engine.PathAuto, false)
			if err != nil {
				t.Fatal(err)
			}
			if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
				t.Fatalf("cp: %v: %s", err, out)
			}
			moved := openAndRead(t, ctx, to)
			if a, b := r.Probe, moved; a.Direct.ToldOffsetBytes == b.Direct.ToldOffsetBytes || a.Filesystem.DeviceID == b.Filesystem.DeviceID ||
				b.Filesystem.LogicalSectorBytes != 4096 || !b.Proven(disk.PathPread) {
				t.Errorf("before %+v %+v, after %+v %+v", a.Filesystem, a.Direct, b.Filesystem, b.Direct)
			}
			if err := secondLife(ctx, to, engine.PathAuto, false); err != nil {
				t.Errorf("on the new device: %v", err)
			}
			if err := secondLife(ctx, from, engine.PathAuto, false); err != nil {
				t.Errorf("on the old device: %v", err)
			}
		})
	}
}

func openAndRead(t *testing.T, ctx context.Context, dir string) *disk.ProbeReport {
	t.Helper()
	o := options(engine.PathAuto)
	o.MustExist = true
	s, err := engine.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	return s.ProbeReport()
}
