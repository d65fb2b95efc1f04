package disk

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/sealstone/sealstone/internal/vfs"
)

// probeReal probes a real directory at length and holds the report to itself.
func probeReal(t *testing.T, dir string) *ProbeReport {
	t.Helper()
	fs, err := vfs.OpenOS(dir)
	must(t, err)
	defer fs.Close()
	r, err := Probe(context.Background(), ProbeOptions{FS: fs, Measure: true})
	must(t, err)
	for _, p := range r.Paths {
		if (p.State == PathProven) != (p.Reason == "") || (p.State == PathProven) != (p.AlignmentBytes > 0) || (p.State == PathProven) != (p.ReadMiBs > 0) {
			t.Errorf("%+v", p)
		}
	}
	if !r.Proven(PathBuffered) || r.Chosen == "" || r.Kernel == "" || r.BootID == "" || r.TookMs <= 0 || r.ReadOnly {
		t.Errorf("%+v", r)
	}
	for _, o := range r.Uring.Operations {
		if o.OK != (o.Reason == "") {
			t.Errorf("%+v", o)
		}
	}
	if r.Proven(PathUring) != (r.Uring.Setup && r.Proven(PathPread)) {
		t.Errorf("io_uring: %+v, %s", r.Uring, r.Summary())
	}
	return r
}

func TestProbeReal(t *testing.T) {
	dir := t.TempDir()
	r := probeReal(t, dir)
	var st unix.Stat_t
	must(t, unix.Stat(dir, &st))
	if want := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)); r.Filesystem.DeviceID != want || r.Filesystem.Type == "" || r.Filesystem.TotalBytes <= 0 {
		t.Errorf("%+v, want device %s", r.Filesystem, want)
	}
	if !r.File.HolesReadZero || !r.File.DropsCache {
		t.Errorf("%+v", r.File)
	}
	if d := r.Direct; r.Proven(PathPread) && (d.MemBytes > PageBytes || d.OffsetBytes > PageBytes || d.LengthBytes > PageBytes || d.ReadsCached) {
		t.Errorf("%+v", d)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 0 {
		t.Errorf("left %v, %v", names, err)
	}
}

// TestProbeRealReadOnly: io_uring too is tried by reading only.
func TestProbeRealReadOnly(t *testing.T) {
	dir := t.TempDir()
	full := probeReal(t, dir)
	must(t, os.WriteFile(filepath.Join(dir, "file"), bytes.Repeat([]byte("sealstone "), 2000), 0o400))
	fs, err := vfs.OpenOS(dir)
	must(t, err)
	defer fs.Close()
	r := mustProbe(t, ProbeOptions{FS: fs, ReadOnly: true, Measure: true})
	for _, p := range r.Paths {
		if p.State != full.Path(p.Name).State || p.ReadMiBs != 0 {
			t.Errorf("%+v, and %s when writing", p, full.Path(p.Name).State)
		}
	}
	for _, o := range r.Uring.Operations {
		if o.Name == "write" {
			t.Error("a write was tried")
		}
	}
}

// TestProbeSectors: on a device with sectors of 4096 bytes direct I/O is
// proven, and known to work in whole sectors only.
func TestProbeSectors(t *testing.T) {
	for _, sector := range []int64{512, 4096} {
		t.Run(fmt.Sprint(sector), func(t *testing.T) {
			dir := mountLoop(t, sector)
			r := probeReal(t, dir)
			wantPath(t, r, PathPread, PathProven, "", "")
			d := r.Direct
			if d.OffsetBytes != sector || d.LengthBytes != sector || r.Path(PathPread).AlignmentBytes != sector {
				t.Errorf("found %+v", d)
			}
			if d.Told && d.ToldOffsetBytes != sector {
				t.Errorf("statx: %+v", d)
			}
			if r.Filesystem.LogicalSectorBytes != sector || r.Filesystem.Type != "ext4" {
				t.Errorf("%+v", r.Filesystem)
			}
		})
	}
}

// mountLoop mounts a new ext4 on a loop device with sectors of that size.
func mountLoop(t *testing.T, sectorBytes int64) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("not root: a loop device can not be mounted")
	}
	image, at := filepath.Join(t.TempDir(), "image"), t.TempDir()
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, 128<<20))
	run := func(name string, args ...string) (string, error) {
		out, err := exec.Command(name, args...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(out))
		}
		return strings.TrimSpace(string(out)), err
	}
	dev, err := run("losetup", "--find", "--show", "--sector-size", fmt.Sprint(sectorBytes), image)
	if err != nil {
		t.Skipf("there are no loop devices: %v", err)
	}
	t.Cleanup(func() {
		if _, err := run("losetup", "--detach", dev); err != nil {
			t.Error(err)
		}
	})
	if _, err := run("mkfs.ext4", "-q", "-F", dev); err != nil {
		t.Skipf("there is no mkfs.ext4: %v", err)
	}
	must(t, unix.Mount(dev, at, "ext4", 0, ""))
	t.Cleanup(func() { must(t, unix.Unmount(at, 0)) })
	return at
}

// TestPagesCached: the look into the page cache sees what is there.
func TestPagesCached(t *testing.T) {
	fs, err := vfs.OpenOS(t.TempDir())
	must(t, err)
	defer fs.Close()
	f, err := fs.Open("file", vfs.Create)
	must(t, err)
	defer f.Close()
	_, err = f.WriteAt(make([]byte, 2*partBytes), 0)
	must(t, err)
	if pagesCached(f, 0, partBytes) < 0 {
		t.Skip("the kernel does not tell what the page cache holds (before 6.5)")
	}
	if got := pagesCached(f, 0, partBytes); got != partBytes/int64(os.Getpagesize()) {
		t.Errorf("%d pages after a write", got)
	}
	if got := pagesCached(f, 4*partBytes, partBytes); got != 0 {
		t.Errorf("%d pages behind the end", got)
	}
}

// silentFS accepts O_DIRECT and goes through the page cache all the same.
type silentFS struct{ vfs.FS }

func (s silentFS) Open(name string, flags vfs.OpenFlag) (vfs.File, error) {
	return s.FS.Open(name, flags&^vfs.Direct)
}

// TestProbeSilentlyBuffered: direct I/O that is none is refused, where the
// page cache can be looked into and is not all that there is.
func TestProbeSilentlyBuffered(t *testing.T) {
	dir := t.TempDir()
	fs, err := vfs.OpenOS(dir)
	must(t, err)
	defer fs.Close()
	r := mustProbe(t, ProbeOptions{FS: silentFS{fs}, Quick: true})
	if r.Filesystem.Memory {
		t.Skip("the temporary directory is in memory: there is nothing but a page cache")
	}
	f, err := fs.Open("file", vfs.Create)
	must(t, err)
	defer f.Close()
	if pagesCached(f, 0, 1) < 0 {
		t.Skip("the kernel does not tell what the page cache holds (before 6.5)")
	}
	wantPath(t, r, PathPread, PathRefused, "through the page cache all the same", "")
	wantPath(t, r, PathUring, PathRefused, "direct I/O is refused: ", "")
	wantPath(t, r, PathBuffered, PathProven, "", "")
	if !r.Direct.ReadsCached || r.Chosen != PathBuffered || r.Path(PathPread).Content {
		t.Error(r.Summary())
	}
}

// TestExplainUring: a refusal says who refuses.
func TestExplainUring(t *testing.T) {
	for _, tc := range []struct {
		level int
		err   error
		want  string
	}{
		{0, unix.EPERM, "a seccomp profile, as container runtimes set by default"},
		{0, unix.ENOSYS, "a seccomp profile, as container runtimes set by default"},
		{1, unix.EPERM, "sysctl kernel.io_uring_disabled is 1"},
		{2, unix.EPERM, "sysctl kernel.io_uring_disabled is 2"},
		{-1, unix.ENOSYS, "function not implemented"},
		{0, unix.ENOMEM, "cannot allocate memory"},
	} {
		p := newProber(ProbeOptions{FS: vfs.NewMem()})
		p.r.Uring.DisabledLevel = tc.level
		if got := p.explainUring(fmt.Errorf("uring: %w", tc.err)); !strings.Contains(got, tc.want) {
			t.Errorf("level %d, %v: %q, want %q", tc.level, tc.err, got, tc.want)
		}
	}
}
