package pagecache

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Drop drops all files below dir from the page cache. Pages that are not
// on the device yet stay, so they are written first.
func Drop(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // the store may remove files of its own
			return nil
		case err != nil:
			return err
		case d.Type().IsRegular():
			return dropFile(path)
		}
		return nil
	})
}

func dropFile(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	fd := int(f.Fd())
	return errors.Join(unix.Fdatasync(fd), unix.Fadvise(fd, 0, 0, unix.FADV_DONTNEED))
}
