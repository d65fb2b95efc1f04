//go:build !linux

package hostinfo

import "errors"

// File is what the kernel tells of an open file beside its content; here it
// tells nothing.
type File struct {
	Filesystem                                            Filesystem
	Major, Minor                                          uint32
	BlockBytes                                            int64
	Told                                                  bool
	MemAlignBytes, OffsetAlignBytes, ReadOffsetAlignBytes int64
}

// FilesystemAt fails with errors.ErrUnsupported.
func FilesystemAt(string) (Filesystem, error) { return Filesystem{}, errors.ErrUnsupported }

// ReadFile fails with errors.ErrUnsupported.
func ReadFile(uintptr) (File, error) { return File{}, errors.ErrUnsupported }
