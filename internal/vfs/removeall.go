package vfs

import (
	"errors"
	"syscall"
)

// removeAll is RemoveAll by the other operations of f: whatever stands before
// f sees each removal.
func removeAll(f FS, name string) error {
	err := f.Remove(name)
	if err == nil || IsNotExist(err) {
		return nil
	}
	if !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.EEXIST) {
		return err
	}
	names, err := f.List(name)
	if err != nil {
		return ignoreAbsent(err)
	}
	for _, base := range names {
		if err := removeAll(f, joinName(name, base)); err != nil {
			return err
		}
	}
	return ignoreAbsent(f.Remove(name))
}

func ignoreAbsent(err error) error {
	if IsNotExist(err) {
		return nil
	}
	return err
}
