package disk

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

const (
	// ProbeFormatVersion is that of a stored report.
	ProbeFormatVersion = 1
	// MaxProbeBytes is the most that a stored report may have.
	MaxProbeBytes = 64 << 10
	// maxProbeList bounds each list of a report.
	maxProbeList = 64
)

// storedProbe is a report as a file holds it.
type storedProbe struct {
	FormatVersion int          `json:"format_version"`
	Report        *ProbeReport `json:"report"`
}

// EncodeProbe encodes a report for a file; see docs/format/probe.md.
func EncodeProbe(r *ProbeReport) ([]byte, error) {
	b, err := json.MarshalIndent(storedProbe{ProbeFormatVersion, r}, "", "  ")
	if err != nil {
		return nil, invalidf("encode probe report: %v", err)
	}
	if len(b) >= MaxProbeBytes {
		return nil, invalidf("encode probe report: %d bytes, the most are %d", len(b), MaxProbeBytes)
	}
	return append(b, '\n'), nil
}

// DecodeProbe decodes what EncodeProbe encoded. Errors: ErrCorrupt, and
// ErrUnsupported for a version that this release does not know. A report that
// decodes proves nothing: it is a memory of figures.
func DecodeProbe(p []byte) (*ProbeReport, error) {
	if len(p) > MaxProbeBytes {
		return nil, probeCorrupt(fmt.Errorf("%d bytes, the most are %d", len(p), MaxProbeBytes))
	}
	var s storedProbe
	if err := json.Unmarshal(p, &s); err != nil {
		return nil, probeCorrupt(err)
	}
	if s.FormatVersion != ProbeFormatVersion {
		return nil, &UnsupportedError{What: "probe report", Detail: fmt.Sprintf("version %d", s.FormatVersion)}
	}
	if s.Report == nil {
		return nil, probeCorrupt(fmt.Errorf("no report"))
	}
	if err := s.Report.check(); err != nil {
		return nil, probeCorrupt(err)
	}
	return s.Report, nil
}

func probeCorrupt(err error) error {
	return &CorruptError{What: "probe report", Reason: ReasonField, Err: err}
}

// check holds a report to what a probe could have written.
func (r *ProbeReport) check() error {
	for _, n := range []int{len(r.Paths), len(r.Notes), len(r.Warnings), len(r.Uring.Flags), len(r.Uring.Operations)} {
		if n > maxProbeList {
			return fmt.Errorf("a list of %d, the most are %d", n, maxProbeList)
		}
	}
	if !slices.EqualFunc(r.Paths, PathNames(), func(p ProbePath, name PathName) bool { return p.Name == name }) {
		return fmt.Errorf("paths are not %v", PathNames())
	}
	for _, p := range r.Paths {
		switch p.State {
		case PathProven, PathRefused, PathUntried:
		default:
			return fmt.Errorf("path %s is %q", p.Name, p.State)
		}
		for _, f := range []float64{p.ReadMiBs, p.WriteMiBs, p.CPUSecondsPerGiB} {
			if math.IsNaN(f) || f < 0 || f > 1e9 {
				return fmt.Errorf("path %s: figure %v", p.Name, f)
			}
		}
	}
	if r.Chosen != "" && !slices.Contains(PathNames(), r.Chosen) {
		return fmt.Errorf("chosen path %q", r.Chosen)
	}
	return nil
}

// SameGround says whether figures measured for old may stand for r: the same
// device, boot and kernel, and the same paths proven.
func (r *ProbeReport) SameGround(old *ProbeReport) bool {
	if old == nil || r.Filesystem.DeviceID == "" || r.Filesystem.DeviceID != old.Filesystem.DeviceID ||
		r.Filesystem.Type != old.Filesystem.Type || r.Kernel != old.Kernel || r.BootID != old.BootID {
		return false
	}
	for _, p := range r.Paths {
		q := old.Path(p.Name)
		if p.State != q.State || p.State == PathProven && q.ReadMiBs == 0 {
			return false
		}
	}
	return true
}

// TakeFigures copies what old measured and r did not, and chooses anew. What
// r proved or refused stays.
func (r *ProbeReport) TakeFigures(old *ProbeReport) {
	for i := range r.Paths {
		p, q := &r.Paths[i], old.Path(r.Paths[i].Name)
		if p.State == PathProven && p.ReadMiBs == 0 {
			p.ReadMiBs, p.WriteMiBs, p.CPUSecondsPerGiB = q.ReadMiBs, q.WriteMiBs, q.CPUSecondsPerGiB
			p.AlignmentBytes = max(q.AlignmentBytes, 1)
		}
	}
	r.Choose()
}
