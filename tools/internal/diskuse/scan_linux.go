package diskuse

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// sectorBytes is the unit of st_blocks, whatever the file system's block is.
const sectorBytes = 512

func stat(path string, follow bool) (id identity, bytes int64, links uint32, err error) {
	flags := unix.AT_SYMLINK_NOFOLLOW
	if follow {
		flags = 0
	}
	var st unix.Statx_t
	err = unix.Statx(unix.AT_FDCWD, path, flags, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &st)
	if err != nil {
		return id, 0, 0, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	id = identity{dev: uint64(st.Dev_major)<<32 | uint64(st.Dev_minor), ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		id.birth = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return id, int64(st.Blocks) * sectorBytes, st.Nlink, nil
}

// addUnlinked adds the files that were below root, have no name any more, and
// are open in the process.
func addUnlinked(u usage, root string, pid int) error {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	fds, err := os.ReadDir(dir)
	if processGone(pid, err) {
		return nil // with the process its files went
	}
	if err != nil {
		return err
	}
	for _, fd := range fds {
		link := filepath.Join(dir, fd.Name())
		target, err := os.Readlink(link)
		if err != nil || !strings.HasPrefix(target, root+"/") || !strings.HasSuffix(target, " (deleted)") {
			continue
		}
		id, bytes, links, err := stat(link, true)
		if err == nil && links == 0 {
			u[id] = bytes
		}
	}
	return nil
}

// processGone says whether err came from a process that has ended. A zombie's
// list of files belongs to root, so there the answer is "permission denied".
func processGone(pid int, err error) bool {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return true
	}
	if !errors.Is(err, fs.ErrPermission) {
		return false
	}
	stat, readErr := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(readErr, fs.ErrNotExist) {
		return true
	}
	_, state, ok := strings.Cut(string(stat), ") ")
	return ok && (strings.HasPrefix(state, "Z") || strings.HasPrefix(state, "X"))
}
