package vfs

import (
	"io/fs"
	"path"
	"strings"
)

// rootName is the name of the root directory.
const rootName = "."

// checkName refuses names that this package does not take. The root passes.
func checkName(op, name string) error {
	if !fs.ValidPath(name) || strings.IndexByte(name, 0) >= 0 {
		return &fs.PathError{Op: op, Path: name, Err: ErrInvalidName}
	}
	return nil
}

// checkEntry is checkName for operations on an entry of a directory: the
// root, which is none, is refused too.
func checkEntry(op, name string) error {
	if name == rootName {
		return &fs.PathError{Op: op, Path: name, Err: ErrInvalidName}
	}
	return checkName(op, name)
}

// splitName parts a valid name into its directory and its last component.
func splitName(name string) (dir, base string) {
	i := strings.LastIndexByte(name, '/')
	if i < 0 {
		return rootName, name
	}
	return name[:i], name[i+1:]
}

// components are the parts of a valid name, none for the root.
func components(name string) []string {
	if name == rootName {
		return nil
	}
	return strings.Split(name, "/")
}

// joinName is the name of entry base in directory dir.
func joinName(dir, base string) string { return path.Join(dir, base) }

// writable says whether the flags ask for a writable file.
func (f OpenFlag) writable() bool { return f&(ReadWrite|Create|Trunc) != 0 }
