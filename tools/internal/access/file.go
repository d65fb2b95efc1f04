package access

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
)

// MaxFileBytes bounds a tokens file; some 5,000 tokens fit.
const MaxFileBytes = 1 << 20

// ErrFileMode: others than the owner may read or write the tokens file.
var ErrFileMode = errors.New("access: the tokens file is open to others")

// Load reads the tokens file at path. A symbolic link is followed, as
// orchestrators hand out secrets by links; the file behind it must be a regular
// one that only its owner may read.
func Load(path string) (*Table, error) {
	c, err := read(path)
	if err != nil {
		return nil, err
	}
	t := &Table{path: path}
	t.content.Store(c)
	return t, nil
}

// Reload reads the file again. When that fails the table stays as it is. It is
// not to be called twice at a time.
func (t *Table) Reload() error {
	c, err := read(t.path)
	if err != nil {
		return fmt.Errorf("%w; the tokens read before stay valid", err)
	}
	t.content.Store(c)
	return nil
}

func read(path string) (*content, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("access: open the tokens file: %w", err)
	}
	defer f.Close()
	// The mode is that of the open file: a path could be exchanged in between.
	i, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("access: look at the tokens file: %w", err)
	}
	if err := checkFile(path, i); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, fmt.Errorf("access: read the tokens file: %w", err)
	}
	if len(text) > MaxFileBytes {
		return nil, fmt.Errorf("access: %s is larger than %d bytes", path, MaxFileBytes)
	}
	c, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("access: %s: %w", path, err)
	}
	return c, nil
}

func checkFile(path string, i fs.FileInfo) error {
	if !i.Mode().IsRegular() {
		return fmt.Errorf("access: %s is not a regular file (%s)", path, i.Mode())
	}
	if mode := i.Mode().Perm(); mode&0o077 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("%w: %s has mode %04o; run: chmod 600 %s", ErrFileMode, path, mode, path)
	}
	return nil
}
