package inventory

import (
	"fmt"
	"strconv"
	"strings"
)

// mount is a line of /proc/self/mountinfo, by proc_pid_mountinfo(5).
type mount struct {
	major, minor uint32
	point        string
	kind         string   // of the file system
	source       string   // what was mounted: a device, mostly
	options      []string // of the mount, then of the file system
}

// parseMount reads a line: ID PARENT MAJOR:MINOR ROOT POINT OPTIONS FIELDS... -
// TYPE SOURCE OPTIONS.
func parseMount(line string) (mount, error) {
	bad := fmt.Errorf("%q is no line of mountinfo", line)
	left, right, ok := strings.Cut(line, " - ")
	l, r := strings.Fields(left), strings.Fields(right)
	if !ok || len(l) < 6 || len(r) < 2 {
		return mount{}, bad
	}
	majorText, minorText, _ := strings.Cut(l[2], ":")
	major, err1 := strconv.ParseUint(majorText, 10, 32)
	minor, err2 := strconv.ParseUint(minorText, 10, 32)
	if err1 != nil || err2 != nil {
		return mount{}, bad
	}
	m := mount{
		major: uint32(major), minor: uint32(minor),
		point: unescape(l[4]), kind: r[0], source: unescape(r[1]),
		options: strings.Split(l[5], ","),
	}
	if len(r) > 2 {
		m.options = append(m.options, strings.Split(r[2], ",")...)
	}
	return m, nil
}

// unescape undoes the octal escapes of blanks and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// mountOf finds the mount of a file system that a path lies in: the last of
// those whose point is the longest beginning of the path. Mount points cover
// each other, so only those of this very device count.
func (t tree) mountOf(dir string, major, minor uint32) (mount, bool) {
	lines, err := t.lines("proc/self/mountinfo")
	if err != nil {
		return mount{}, false
	}
	var best mount
	found := false
	for _, l := range lines {
		m, err := parseMount(l)
		if err != nil || m.major != major || m.minor != minor || !within(dir, m.point) {
			continue
		}
		if !found || len(m.point) >= len(best.point) {
			best, found = m, true
		}
	}
	return best, found
}

func within(dir, point string) bool {
	return point == "/" || dir == point || strings.HasPrefix(dir, strings.TrimSuffix(point, "/")+"/")
}
