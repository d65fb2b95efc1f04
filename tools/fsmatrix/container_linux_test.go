package fsmatrix

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tiers/disk"
)

// containerFS is where stores of children live: ext4, open to everybody.
func containerFS(t *testing.T) string { return diskFS(t, "ext4", 512) }

// TestFaultSeccompRefusesUring: under a profile that refuses io_uring the store
// works by its other paths, and says what refused it; asking for uring is an
// error with that reason.
func TestFaultSeccompRefusesUring(t *testing.T) {
	at := containerFS(t)
	for child, errno := range map[string]string{"seccomp-eperm": "EPERM", "seccomp-enosys": "ENOSYS"} {
		t.Run(errno, func(t *testing.T) {
			fault := counted(t, "io_uring refused with "+errno)
			for _, path := range choices {
				dir := filepath.Join(at, child+string(path))
				r := inChild(t, child, dir, path)
				if path == engine.PathUring {
					if !r.PathRefused || !strings.Contains(r.Err, "seccomp") {
						t.Errorf("uring asked for: %s", r.Err)
					}
					continue
				}
				if r.Err != "" {
					t.Errorf("%s: %s", path, r.Err)
					continue
				}
				u := r.Probe.Path(disk.PathUring)
				if u.State != disk.PathRefused || u.Errno != errno || !strings.Contains(u.Reason, "seccomp") || r.Probe.Uring.Setup {
					t.Errorf("%s: uring %+v", path, u)
				}
				fault.Fire()
				if !r.Probe.Proven(disk.PathPread) || !r.Probe.Proven(disk.PathBuffered) || r.PathRead == string(disk.PathUring) {
					t.Errorf("%s: %s, read by %s", path, r.Probe.Summary(), r.PathRead)
				}
			}
		})
	}
}

// TestFaultSmallLimits: with `ulimit -l 64` or `ulimit -n 64`, and without root,
// the store works by every path, or says what it lacks.
func TestFaultSmallLimits(t *testing.T) {
	at := containerFS(t)
	for _, child := range []string{"memlock", "nofile", "nobody"} {
		t.Run(child, func(t *testing.T) {
			fault := counted(t, "limits of child "+child)
			for _, path := range choices {
				r := inChild(t, child, filepath.Join(at, child+string(path)), path)
				if r.PathRefused && path == engine.PathUring && strings.Contains(r.Err, "RLIMIT") {
					t.Logf("uring: %s", r.Err)
					continue
				}
				if r.Err != "" {
					t.Errorf("%s: %s", path, r.Err)
					continue
				}
				limits := r.Probe.Limits
				if child == "memlock" && limits.MemlockBytes != 64<<10 || child == "nofile" && limits.OpenFiles != 64 {
					t.Errorf("%s: limits %+v", path, limits)
				}
				fault.Fire() // the child said that it lives under them
				t.Log(r.Probe.Summary())
			}
		})
	}
}
