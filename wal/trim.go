package wal

import (
	"fmt"

	"github.com/sealstone/sealstone/internal/vfs"
)

// Trim removes the files, also those found by Create, whose records all lie
// below before; never the newest. The directory is synced after each, oldest
// first, so that no crash leaves a hole between the files.
func (l *Log) Trim(before LSN) error {
	return l.remove(func(next ownedFile) bool { return next.base <= before })
}

// RemoveOthers removes all log files that were there before this log. Call it
// when nothing of them is needed any more.
func (l *Log) RemoveOthers() error {
	return l.remove(func(next ownedFile) bool { return next.base <= l.own })
}

// remove takes away the oldest file as long as the next one allows it.
func (l *Log) remove(goes func(next ownedFile) bool) error {
	l.trimMu.Lock()
	defer l.trimMu.Unlock()
	for {
		l.mu.Lock()
		err := l.usableLocked()
		some := err == nil && len(l.files) > 1 && goes(l.files[1])
		oldest := l.files[0]
		l.mu.Unlock()
		if err != nil || !some {
			return err
		}
		if err := l.removeFile(oldest.base); err != nil {
			return err
		}
		l.mu.Lock()
		l.files = append(l.files[:0], l.files[1:]...)
		l.mu.Unlock()
	}
}

// removeFile removes one file durably. A removal that may or may not be
// durable poisons the log: a later one could otherwise leave a hole.
func (l *Log) removeFile(base LSN) error {
	name := l.o.path(base)
	if err := l.o.FS.Remove(name); err != nil && !vfs.IsNotExist(err) {
		return fmt.Errorf("wal: remove %s: %w", name, err)
	}
	if err := l.o.FS.SyncDir(l.o.Dir); err != nil {
		return l.poison("remove", name, err)
	}
	return nil
}
