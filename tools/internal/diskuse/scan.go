package diskuse

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
)

// identity tells one file from another even when the file system gives an
// inode number out again.
type identity struct {
	dev, ino uint64
	birth    int64 // nanoseconds, 0 where the file system does not say
}

// usage is what each file holds in bytes. Hard links count once.
type usage map[identity]int64

func (u usage) total() int64 {
	var n int64
	for _, b := range u {
		n += b
	}
	return n
}

// common is a lower bound of what was held at the moment between two scans
// that followed one another: files in both, at the smaller of both sizes. A
// sum over one scan would be no bound at all: a file removed after it was
// counted and another one made before the scan came to it would both be in.
func common(a, b usage) int64 {
	var n int64
	for id, bytes := range a {
		if later, ok := b[id]; ok {
			n += min(bytes, later)
		}
	}
	return n
}

// Bytes is what the directory holds now, unlinked files held open by the
// processes among them. It is exact only while nothing changes.
func Bytes(dir string, pids ...int) (int64, error) {
	u, err := scan(dir, pids)
	return u.total(), err
}

func scan(dir string, pids []int) (usage, error) {
	root, err := filepath.EvalSymlinks(dir)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return nil, fmt.Errorf("diskuse: %w", err)
	}
	u := usage{}
	err = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = addPath(u, path)
		}
		if errors.Is(err, fs.ErrNotExist) && path != root {
			return nil // it went away while the walk was on its way
		}
		return err
	})
	if err != nil {
		return u, fmt.Errorf("diskuse: walk %s: %w", root, err)
	}
	for _, pid := range pids {
		if err := addUnlinked(u, root, pid); err != nil {
			return u, fmt.Errorf("diskuse: unlinked files of process %d: %w", pid, err)
		}
	}
	return u, nil
}

func addPath(u usage, path string) error {
	id, bytes, _, err := stat(path, false)
	if err == nil {
		u[id] = bytes
	}
	return err
}
