package hostinfo

import (
	"bufio"
	"bytes"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// CgroupMemory is what the control groups of the process allow it together
// with all others in them. Pages of a tmpfs and of the page cache count.
type CgroupMemory struct {
	// LimitBytes is the lowest limit of the process' group and the groups
	// above it, as far as they can be seen from here.
	LimitBytes int64
	// UsedBytes is what the group that has this limit uses now.
	UsedBytes int64
	// Version of the control groups, 1 or 2.
	Version int
}

// ReadCgroupMemory finds the memory limit of the process' control group. ok
// is false where there is no limit.
func ReadCgroupMemory() (m CgroupMemory, ok bool) { return readCgroupMemory(root()) }

// noLimitBytes: version 1 says "no limit" by a number near to the largest.
const noLimitBytes = int64(1) << 60

func readCgroupMemory(fsys fs.FS) (m CgroupMemory, ok bool) {
	own, err := fs.ReadFile(fsys, "proc/self/cgroup")
	if err != nil {
		return m, false
	}
	mounts, err := fs.ReadFile(fsys, "proc/self/mountinfo")
	if err != nil {
		return m, false
	}
	// A host may have both versions at a time, with the memory controller in
	// one of them: whichever has a limit counts.
	for _, v := range []struct {
		version            int
		fstype, controller string
		limit, used        string
	}{
		{2, "cgroup2", "", "memory.max", "memory.current"},
		{1, "cgroup", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"},
	} {
		group, there := groupPath(own, v.controller)
		mountedAt, mountedRoot, mounted := cgroupMount(mounts, v.fstype, v.controller)
		if !there || !mounted {
			continue
		}
		if one, found := lowestLimit(fsys, mountedAt, below(group, mountedRoot), v.limit, v.used); found {
			one.Version = v.version
			return one, true
		}
	}
	return m, false
}

// lowestLimit walks from the group up to the mount.
func lowestLimit(fsys fs.FS, mountedAt, group, limitFile, usedFile string) (m CgroupMemory, ok bool) {
	for {
		dir := strings.TrimPrefix(path.Join(mountedAt, group), "/")
		limit, set := number(fsys, path.Join(dir, limitFile)) // "max" is no number
		if set && limit > 0 && limit < noLimitBytes && (!ok || limit < m.LimitBytes) {
			used, _ := number(fsys, path.Join(dir, usedFile))
			m.LimitBytes, m.UsedBytes, ok = limit, used, true
		}
		if group == "/" || group == "." || group == "" {
			return m, ok
		}
		group = path.Dir(group)
	}
}

// groupPath finds the process' group in the lines "number:controllers:path"
// of /proc/self/cgroup. Version 2 is the line without controllers.
func groupPath(own []byte, controller string) (string, bool) {
	s := bufio.NewScanner(bytes.NewReader(own))
	for s.Scan() {
		parts := strings.SplitN(s.Text(), ":", 3)
		if len(parts) == 3 && hasField(parts[1], controller) {
			return path.Clean("/" + parts[2]), true
		}
	}
	return "", false
}

// hasField says whether a comma separated list has the name; an empty name
// wants an empty list.
func hasField(list, name string) bool {
	if name == "" {
		return list == ""
	}
	for f := range strings.SplitSeq(list, ",") {
		if f == name {
			return true
		}
	}
	return false
}

// cgroupMount finds where the hierarchy is mounted, and which of its groups
// is the root of the mount. The format of mountinfo is that of proc(5).
func cgroupMount(mountinfo []byte, fstype, controller string) (at, rootGroup string, ok bool) {
	s := bufio.NewScanner(bytes.NewReader(mountinfo))
	for s.Scan() {
		before, after, split := strings.Cut(s.Text(), " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !split || len(left) < 5 || len(right) < 3 || right[0] != fstype {
			continue
		}
		if controller != "" && !hasField(right[2], controller) {
			continue
		}
		return unescape(left[4]), unescape(left[3]), true
	}
	return "", "", false
}

// below is group as seen from rootGroup. A group that is not below it (the
// mount belongs to another namespace) is taken for the root itself.
func below(group, rootGroup string) string {
	rest, ok := strings.CutPrefix(group, strings.TrimSuffix(rootGroup, "/"))
	if !ok || rest != "" && rest[0] != '/' || strings.HasPrefix(group, "/..") {
		return "/"
	}
	return path.Clean("/" + rest)
}

// unescape undoes the octal escapes of mountinfo (of space, tab, newline and
// backslash).
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
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
