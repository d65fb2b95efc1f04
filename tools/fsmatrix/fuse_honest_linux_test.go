package fsmatrix

import (
	"context"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tiers/disk"
)

// TestFuseHonest: a FUSE file system that does what it is told, with the
// kernel's page cache and without, is like any other, but for a warning.
func TestFuseHonest(t *testing.T) {
	for _, cached := range []bool{true, false} {
		f := mountFaulty(t, cached)
		for _, path := range choices {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			r, err := exercise(ctx, filepath.Join(f.at, "store-"+string(path)), path, false)
			cancel()
			if err != nil {
				t.Errorf("cached %v, %s: %v", cached, path, err)
				continue
			}
			t.Log(r.Probe.Summary())
			if fsys := r.Probe.Filesystem; fsys.Type != "fuse" || !fsys.Network || len(r.Probe.Warnings) == 0 {
				t.Errorf("file system %+v, warnings %q", fsys, r.Probe.Warnings)
			}
			remove(t, filepath.Join(f.at, "store-"+string(path)))
		}
	}
}

// TestFuseRefusesDirect: where I/O past the page cache is refused, at once or
// only when it is tried, the store goes through the page cache, and the report
// has the error.
func TestFuseRefusesDirect(t *testing.T) {
	for _, c := range []struct {
		name        string
		rule        func(op) verdict
		errno, text string
	}{
		{"EINVAL at open", refusing(opOpen, syscall.EINVAL), "EINVAL", "direct I/O not supported here"},
		// The same number has two names.
		{"EOPNOTSUPP at open", refusing(opOpen, syscall.EOPNOTSUPP), "ENOTSUP", "operation not supported"},
		{"EINVAL at write", refusing(opWrite, syscall.EINVAL), "EINVAL", "direct write: "},
		{"EINVAL at read", refusing(opRead, syscall.EINVAL), "EINVAL", "direct read: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := mountFaulty(t, false)
			f.be(c.rule)
			for _, path := range choices {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				dir := filepath.Join(f.at, "store-"+string(path))
				r, err := exercise(ctx, dir, path, false)
				cancel()
				if path == engine.PathUring || path == engine.PathPread {
					wantRefused(t, path, err, c.text)
					continue
				}
				if err != nil {
					t.Errorf("%s: %v", path, err)
					continue
				}
				for _, name := range []disk.PathName{disk.PathPread, disk.PathUring} {
					if p := r.Probe.Path(name); p.State == disk.PathProven || name == disk.PathPread && p.Errno != c.errno {
						t.Errorf("%s: %+v, want it refused with %s", path, p, c.errno)
					}
				}
				if r.PathRead != string(disk.PathBuffered) || r.Probe.Chosen != disk.PathBuffered {
					t.Errorf("%s: reads by %s, chosen %s", path, r.PathRead, r.Probe.Chosen)
				}
				remove(t, dir)
			}
			if f.lied.Load() == 0 {
				t.Error("nothing was refused")
			}
		})
	}
}

// refusing answers direct requests of a kind with an error.
func refusing(kind opKind, errno syscall.Errno) func(op) verdict {
	return func(o op) verdict {
		if o.kind == kind && o.direct {
			return verdict{errno: errno}
		}
		return verdict{}
	}
}

// wantRefused checks the error of an Open that asks for a path that is not to
// be had.
func wantRefused(t *testing.T, path engine.PathChoice, err error, part string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), engine.ErrPathRefused.Error()) || !strings.Contains(err.Error(), part) {
		t.Errorf("%s asked for: %v, want it refused: %s", path, err, part)
	}
}
