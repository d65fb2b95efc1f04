package canary

import (
	"bytes"
)

// diagnose says what kind of wrong the bytes of a destination are. It decides
// nothing: they are wrong.
func diagnose(e *evidence) *finding {
	got, want := e.got(), e.want()
	at := firstDifference(got, want)
	switch {
	case firstOther(got, e.poison) < 0:
		return found(nameStale, "it reported %d bytes and wrote none: the destination still holds what it was filled with", e.returned)
	case firstOther(got[at:], e.poison) < 0:
		return found(nameHalfLanded, "it reported %d bytes, of which the first %d arrived", e.returned, at)
	}
	if by, ok := displacement(e); ok {
		return found(nameMisplaced, "it brought the bytes of the file that stand %+d beside those asked for", by)
	}
	if e.before != nil && bytes.Equal(got, e.before[e.FileOffset:][:e.Length]) {
		return found(nameOldBytes, "it brought what stood in the file before it was rewritten and synced")
	}
	return found(nameWrongBytes, "%d of %d bytes are wrong, the first at %d", differences(got, want), len(want), at)
}

// displacement looks for the first page that arrived elsewhere in the file, at
// whole pages.
func displacement(e *evidence) (by int64, ok bool) {
	page := e.got()[:min(e.Length, pageBytes)]
	for off := int64(0); off+int64(len(page)) <= int64(len(e.file)); off += pageBytes {
		if off != e.FileOffset && bytes.Equal(e.file[off:][:len(page)], page) {
			return off - e.FileOffset, true
		}
	}
	return 0, false
}
