package disk

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestChoose(t *testing.T) {
	path := func(name PathName, read, cpu float64) ProbePath {
		return ProbePath{Name: name, State: PathProven, ReadMiBs: read, CPUSecondsPerGiB: cpu}
	}
	refused := ProbePath{Name: PathUring, State: PathRefused, ReadMiBs: 9999, Reason: "it lies"}
	for _, tc := range []struct {
		name    string
		paths   []ProbePath
		want    PathName
		because string
	}{
		{"none", nil, "", "no path is proven"},
		{"all refused", []ProbePath{refused}, "", "no path is proven"},
		{"one", []ProbePath{refused, path(PathBuffered, 10, 1)}, PathBuffered, "the only proven path"},
		{"nothing measured", []ProbePath{path(PathUring, 0, 0), path(PathPread, 0, 0)}, PathUring, "nothing was measured"},
		{"clearly faster", []ProbePath{path(PathUring, 1000, 0.1), path(PathPread, 1200, 0.3), path(PathBuffered, 900, 0.1)}, PathPread, "reads fastest, 1200"},
		{"within the noise, less CPU", []ProbePath{path(PathUring, 1100, 0.1), path(PathPread, 1200, 0.3), path(PathBuffered, 900, 0.05)}, PathUring, "0.10 s per GiB"},
		{"within the noise, the second takes less", []ProbePath{path(PathUring, 1200, 0.3), path(PathPread, 1190, 0.1)}, PathPread, "within 10 %"},
		{"all alike", []ProbePath{path(PathUring, 1100, 0.21), path(PathPread, 1200, 0.2), path(PathBuffered, 1150, 0.2)}, PathUring, "within 10 %"},
		{"the page cache faster than all", []ProbePath{path(PathUring, 1000, 0.1), path(PathPread, 500, 0.3), path(PathBuffered, 9000, 0.01)}, PathUring, "reads fastest, 1000"},
		{"one past the page cache", []ProbePath{refused, path(PathPread, 500, 0.3), path(PathBuffered, 9000, 0.01)}, PathPread, "the only proven path past the page cache"},
		{"only one measured", []ProbePath{path(PathUring, 0, 0), path(PathPread, 100, 0.2)}, PathPread, "reads fastest"},
	} {
		r := &ProbeReport{Paths: tc.paths}
		r.Choose()
		if r.Chosen != tc.want || !strings.Contains(r.ChosenBecause, tc.because) {
			t.Errorf("%s: %q because %q, want %q because %q", tc.name, r.Chosen, r.ChosenBecause, tc.want, tc.because)
		}
	}
}

// TestChooseProperty: what is chosen is proven, and nothing proven is faster
// by more than the noise, but for the page cache.
func TestChooseProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawReport(t)
		r.Choose()
		if r.Chosen == "" {
			for _, p := range r.Paths {
				if p.State == PathProven {
					t.Fatalf("%s is proven and nothing chosen", p.Name)
				}
			}
			return
		}
		c := r.Path(r.Chosen)
		if c.State != PathProven {
			t.Fatalf("%s is %s", c.Name, c.State)
		}
		if c.Name == PathBuffered {
			for _, p := range r.Paths {
				if p.Name != PathBuffered && p.State == PathProven {
					t.Fatalf("%v chosen, and %v is proven", c, p)
				}
			}
		}
		for _, p := range r.Paths {
			if p.State == PathProven && p.Name != PathBuffered && p.ReadMiBs*(1-probeNoise) > c.ReadMiBs {
				t.Fatalf("%v chosen, and %v reads faster", c, p)
			}
		}
	})
}

// drawReport draws a report that a probe could have made.
func drawReport(t *rapid.T) *ProbeReport {
	r := &ProbeReport{Notes: []string{}, Warnings: []string{}}
	r.Uring.Flags, r.Uring.Operations = []string{}, []ProbeOperation{}
	speed := rapid.Float64Range(0, 1e5)
	for _, name := range PathNames() {
		p := ProbePath{Name: name, State: rapid.SampledFrom([]PathState{PathProven, PathRefused, PathUntried}).Draw(t, "state")}
		if p.State == PathProven {
			p.AlignmentBytes = 1 << rapid.IntRange(0, 12).Draw(t, "alignment")
			p.ReadMiBs, p.WriteMiBs = speed.Draw(t, "read"), speed.Draw(t, "write")
			p.CPUSecondsPerGiB = rapid.Float64Range(0, 10).Draw(t, "cpu")
		} else {
			p.Reason, p.Errno = rapid.StringN(0, 30, 60).Draw(t, "reason"), rapid.SampledFrom([]string{"", "EPERM"}).Draw(t, "errno")
		}
		r.Paths = append(r.Paths, p)
	}
	r.Notes = append(r.Notes, rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "notes")...)
	r.Filesystem.DeviceID = rapid.SampledFrom([]string{"", "8:1", "259:3"}).Draw(t, "device")
	r.Kernel = rapid.SampledFrom([]string{"6.8.0", "6.18.0"}).Draw(t, "kernel")
	r.BootID = rapid.SampledFrom([]string{"one", "two"}).Draw(t, "boot")
	return r
}

// TestTakeFigures: figures are taken over on the same ground only, and never
// make a path proven.
func TestTakeFigures(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, now := drawReport(t), drawReport(t)
		for i := range now.Paths {
			now.Paths[i].ReadMiBs, now.Paths[i].WriteMiBs, now.Paths[i].CPUSecondsPerGiB = 0, 0, 0
		}
		same := now.SameGround(old)
		if same && (old.Kernel != now.Kernel || old.BootID != now.BootID || old.Filesystem != now.Filesystem || now.Filesystem.DeviceID == "") {
			t.Fatalf("the same ground: %+v and %+v", old, now)
		}
		before := now.Clone()
		now.TakeFigures(old)
		for i, p := range now.Paths {
			if p.State != before.Paths[i].State || p.Reason != before.Paths[i].Reason {
				t.Fatalf("%s became %s", p.Name, p.State)
			}
			if same && p.State == PathProven && (p.State != old.Paths[i].State || p.ReadMiBs != old.Paths[i].ReadMiBs) {
				t.Fatalf("%+v from %+v", p, old.Paths[i])
			}
		}
		if now.Chosen != "" && !now.Proven(now.Chosen) {
			t.Fatalf("chosen %s", now.Chosen)
		}
	})
	r := &ProbeReport{}
	if r.SameGround(nil) {
		t.Error("the same ground as no report")
	}
}
