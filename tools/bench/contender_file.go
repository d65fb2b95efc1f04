package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

var fileBuffered = contender{
	name: "file", verified: "nothing",
	settings: "a file per block in 256 folders, written under another name and renamed, 16 goroutines a call; one syncfs at the end",
	open:     func(dir string, _ work) (store, error) { return openFiles(dir, 0) },
}

var fileDirect = contender{
	name: "file-direct", verified: "nothing",
	settings: "as file, with O_DIRECT and fallocate",
	open:     func(dir string, _ work) (store, error) { return openFiles(dir, unix.O_DIRECT) },
}

// files keeps each block in a file named after its key.
type files struct {
	plainMemory
	dir   string
	flags int // of open beside the usual ones
}

func openFiles(dir string, flags int) (store, error) {
	for i := range 256 {
		if err := os.MkdirAll(filepath.Join(dir, fmt.Sprintf("%02x", i)), 0o700); err != nil {
			return nil, err
		}
	}
	return &files{dir: dir, flags: flags}, nil
}

func (f *files) path(key []byte) string {
	return filepath.Join(f.dir, hex.EncodeToString(key[:1]), hex.EncodeToString(key))
}

// Put implements store.
func (f *files) Put(keys, values [][]byte) error {
	return parallel(readers, len(keys), func(i int) error { return f.write(f.path(keys[i]), values[i]) })
}

func (f *files) write(path string, p []byte) (err error) {
	part := path + ".part"
	file, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|f.flags, 0o600)
	if err != nil {
		return err
	}
	if f.flags != 0 {
		if err := unix.Fallocate(int(file.Fd()), 0, 0, int64(len(p))); err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
			return errors.Join(err, file.Close())
		}
	}
	_, err = file.Write(p)
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(part, path)
}

// Get implements store.
func (f *files) Get(keys, dst [][]byte) error {
	return parallel(readers, len(keys), func(i int) error {
		file, err := os.OpenFile(f.path(keys[i]), os.O_RDONLY|f.flags, 0)
		if err != nil {
			return err
		}
		_, err = io.ReadFull(file, dst[i])
		return errors.Join(err, file.Close())
	})
}

// Sync implements store.
func (f *files) Sync() error {
	d, err := os.Open(f.dir)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}

// Close implements store.
func (f *files) Close() error { return nil }
