package gpu

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openDirect opens the file behind a descriptor a second time, for cuFile alone:
// it wants O_DIRECT and refuses descriptors with O_NOFOLLOW (5019), with which a
// store opens its files. The new descriptor is compared with id, so that the
// handle is kept under the right name.
func openDirect(fd int, id FileID) (*os.File, error) {
	name := fmt.Sprintf("/proc/self/fd/%d", fd)
	n, err := unix.Open(name, unix.O_RDONLY|unix.O_DIRECT|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("gpu: opening a file for direct reads: %w", &os.PathError{Op: "open", Path: name, Err: err})
	}
	f := os.NewFile(uintptr(n), name)
	var st unix.Stat_t
	if err := unix.Fstat(n, &st); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("gpu: opening a file for direct reads: %w", &os.PathError{Op: "fstat", Path: name, Err: err})
	}
	if got := (FileID{Dev: uint64(st.Dev), Ino: st.Ino}); got != id {
		_ = f.Close()
		return nil, fmt.Errorf("%w: the descriptor is of file %v, not %v", ErrInvalid, got, id)
	}
	return f, nil
}
