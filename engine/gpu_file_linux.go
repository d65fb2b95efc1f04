package engine

import (
	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/internal/vfs"
	"golang.org/x/sys/unix"
)

// deviceFileOf is the descriptor of a file and what it refers to; ok is false
// where no descriptor stands behind the file.
func deviceFileOf(f vfs.File) (fd int, id gpu.FileID, ok bool) {
	if f == nil || f.Fd() == vfs.InvalidFd {
		return 0, id, false
	}
	fd = int(f.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, id, false
	}
	return fd, gpu.FileID{Dev: st.Dev, Ino: st.Ino}, true
}
