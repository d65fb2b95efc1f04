package engine

import (
	"errors"
	"fmt"
	"path"

	"github.com/sealstone/sealstone/internal/vfs"
)

// syncOldLog makes the log of the last run durable before Open decides
// anything by it. A process that was killed may have left its end in the page
// cache alone: a power cut after Open has written footers, and before the
// index is flushed, would take records whose extents the footers list, and a
// block found absent then would come back when the index is rebuilt.
func (s *Store) syncOldLog() error {
	if s.o.ReadOnly {
		return nil
	}
	names, err := s.fs.List(logDir)
	if err != nil {
		if vfs.IsNotExist(err) {
			return nil
		}
		return fmt.Errorf("engine: list the log: %w", err)
	}
	for _, n := range names {
		if path.Ext(n) != ".wal" {
			continue
		}
		if err := s.syncFile(path.Join(logDir, n)); err != nil {
			return fmt.Errorf("engine: sync the log of the last run: %w", err)
		}
	}
	return nil
}

func (s *Store) syncFile(name string) error {
	f, err := s.fs.Open(name, vfs.ReadWrite)
	if err != nil {
		return err
	}
	return errors.Join(f.Datasync(), f.Close())
}
