package wal

import (
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/sealstone/sealstone/internal/vfs"
)

// Preserve copies a torn tail of a file in dir, as evidence, to
// destDir/<file name>.<offset>.torn, durably; an older copy is replaced.
// Nothing else in this package keeps a tail when its file is removed. It does
// nothing for nil or a tail without bytes.
func Preserve(fs vfs.FS, dir string, torn *Torn, destDir string) error {
	if torn == nil || torn.DroppedBytes == 0 {
		return nil
	}
	name := path.Base(torn.File)
	from, err := fs.Open(path.Join(dir, name), 0)
	if err != nil {
		return fmt.Errorf("wal: preserve torn tail: %w", err)
	}
	defer from.Close() // opened for reading: nothing to lose
	dest := path.Join(destDir, fmt.Sprintf("%s.%d.torn", name, torn.Offset))
	to, err := fs.Open(dest, vfs.Create|vfs.Trunc)
	if err != nil {
		return fmt.Errorf("wal: preserve torn tail: %w", err)
	}
	err = copyRange(to, from, torn.Offset, torn.DroppedBytes)
	if err == nil {
		err = to.Sync()
	}
	if cerr := to.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = fs.SyncDir(destDir)
	}
	if err != nil {
		return fmt.Errorf("wal: preserve torn tail of %s in %s: %w", torn.File, dest, err)
	}
	return nil
}

// copyRange copies n bytes at off of from to the start of to.
func copyRange(to, from vfs.File, off, n int64) error {
	buf := make([]byte, min(n, 64<<10))
	for done := int64(0); done < n; {
		p := buf[:min(n-done, int64(len(buf)))]
		if got, err := from.ReadAt(p, off+done); got != len(p) {
			if err == nil || errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		if err := writeAll(to, p, done); err != nil {
			return err
		}
		done += int64(len(p))
	}
	return nil
}
