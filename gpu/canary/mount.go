package canary

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// mountPoint is one line of /proc/self/mountinfo.
type mountPoint struct {
	id         uint64
	filesystem string
	// text is the source, the root within it, the mount point and the
	// options of the mount and of the file system.
	text string
}

// parseMountID finds the mount of an open file in its /proc/self/fdinfo
// (Linux 3.15).
func parseMountID(fdinfo []byte) (uint64, error) {
	for line := range strings.Lines(string(fdinfo)) {
		if value, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strconv.ParseUint(strings.TrimSpace(value), 10, 64)
		}
	}
	return 0, fmt.Errorf("no mnt_id")
}

// findMount finds a mount by its number; see proc_pid_mountinfo(5).
func findMount(mountinfo []byte, id uint64) (mountPoint, error) {
	lines := bufio.NewScanner(bytes.NewReader(mountinfo))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		m, err := parseMount(lines.Text())
		if err == nil && m.id == id {
			return m, nil
		}
	}
	return mountPoint{}, fmt.Errorf("mount %d is not in /proc/self/mountinfo", id)
}

// parseMount reads a line: ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [FIELD...]
// - TYPE SOURCE OPTIONS. The fields in the middle say how mounts propagate;
// they do not change what a file is.
func parseMount(line string) (mountPoint, error) {
	front, back, ok := strings.Cut(line, " - ")
	f, b := strings.Fields(front), strings.Fields(back)
	if !ok || len(f) < 6 || len(b) < 2 {
		return mountPoint{}, fmt.Errorf("mount %q: want at least 6 fields, \" - \" and 2 fields", line)
	}
	id, err := strconv.ParseUint(f[0], 10, 64)
	if err != nil {
		return mountPoint{}, fmt.Errorf("mount %q: %w", line, err)
	}
	m := mountPoint{id: id, filesystem: b[0], text: strings.Join([]string{b[1], f[3], f[4], f[5]}, " ")}
	if len(b) > 2 {
		m.text += " " + b[2]
	}
	return m, nil
}
