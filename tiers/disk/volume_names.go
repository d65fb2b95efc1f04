package disk

import (
	"fmt"
	"strconv"
	"strings"
)

const (
	segmentsDir   = "segments"
	segmentSuffix = ".seg"
	sidecarSuffix = ".del"
	renewalSuffix = ".tmp" // of a sidecar that is to take the place of one that failed
)

// segmentDir is the directory of a segment: by the low byte of its id, so
// that segments written one after the other spread over 256 directories.
func segmentDir(id uint64) string { return fmt.Sprintf("%s/%02x", segmentsDir, id&0xff) }

// SegmentName is the name of a segment file under the store's root.
func SegmentName(id uint64) string {
	return fmt.Sprintf("%s/%016x%s", segmentDir(id), id, segmentSuffix)
}

// SidecarName is the name of a segment's tombstone file.
func SidecarName(id uint64) string {
	return fmt.Sprintf("%s/%016x%s", segmentDir(id), id, sidecarSuffix)
}

func renewalName(id uint64) string { return SidecarName(id) + renewalSuffix }

// isRenewal reports whether a name in directory hh is that of a sidecar which
// was not finished.
func isRenewal(hh, name string) bool {
	base, ok := strings.CutSuffix(name, renewalSuffix)
	if !ok {
		return false
	}
	_, sidecar, ok := parseName(hh, base)
	return ok && sidecar
}

// parseName reads the name of a file in directory hh; ok is false where no
// segment or sidecar would have this name in this place.
func parseName(hh, name string) (id uint64, sidecar, ok bool) {
	base, isSegment := strings.CutSuffix(name, segmentSuffix)
	if !isSegment {
		if base, sidecar = strings.CutSuffix(name, sidecarSuffix); !sidecar {
			return 0, false, false
		}
	}
	id, err := strconv.ParseUint(base, 16, 64)
	if err != nil || fmt.Sprintf("%016x", id) != base || fmt.Sprintf("%02x", id&0xff) != hh {
		return 0, false, false
	}
	return id, sidecar, true
}

// isDirName reports whether name is a directory of segments.
func isDirName(name string) bool {
	n, err := strconv.ParseUint(name, 16, 8)
	return err == nil && fmt.Sprintf("%02x", n) == name
}
