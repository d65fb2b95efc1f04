package meta

import (
	"fmt"
	"io"

	"github.com/sealstone/sealstone/internal/vfs"
)

// replaceFile puts data in the place of name. After a crash at any moment name
// is the old file or the new one, whole; after replaceFile it is the new one.
func replaceFile(fsys vfs.FS, name string, data []byte) error {
	tmp := name + tmpSuffix
	if err := removeIfThere(fsys, tmp); err != nil {
		return fmt.Errorf("meta: replace %s: %w", name, err)
	}
	if err := writeDurably(fsys, tmp, data); err != nil {
		_ = fsys.Remove(tmp) // a full disk needs its bytes; Open removes it otherwise
		return fmt.Errorf("meta: replace %s: %w", name, err)
	}
	if err := fsys.Rename(tmp, name); err != nil {
		_ = fsys.Remove(tmp)
		return fmt.Errorf("meta: replace %s: %w", name, err)
	}
	if err := fsys.SyncDir("."); err != nil {
		return fmt.Errorf("meta: replace %s: %w", name, err)
	}
	return nil
}

// writeDurably makes the bytes of a new file durable, not its name.
func writeDurably(fsys vfs.FS, name string, data []byte) (err error) {
	f, err := fsys.Open(name, vfs.Create|vfs.Excl)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
	}()
	if _, err := f.WriteAt(data, 0); err != nil {
		return err
	}
	return f.Datasync()
}

// readFile reads a whole file of at most limitBytes.
func readFile(fsys vfs.FS, name string, limitBytes int64) ([]byte, error) {
	f, err := fsys.Open(name, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.SizeBytes > limitBytes {
		return nil, fmt.Errorf("%d bytes, more than %d", info.SizeBytes, limitBytes)
	}
	p := make([]byte, info.SizeBytes)
	n, err := f.ReadAt(p, 0)
	if n == len(p) { // io.EOF may come with the last byte
		return p, nil
	}
	if err == nil || err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return nil, err
}

func removeIfThere(fsys vfs.FS, name string) error {
	if err := fsys.Remove(name); err != nil && !vfs.IsNotExist(err) {
		return err
	}
	return nil
}
