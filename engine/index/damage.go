package index

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sealstone/sealstone/internal/vfs"
)

// DamageMark is a file in the index' directory that says that damage was met
// while running. Pebble looks at little of an index when it opens it: without
// the mark, the next Open would find nothing wrong and meet it again.
const DamageMark = "DAMAGED"

// isDamage reports whether an error of Pebble or of a record says so.
func isDamage(err error) bool {
	return err != nil && (pebble.IsCorruptionError(err) || errors.Is(err, errBadRecord))
}

// noteDamage marks the index failed when Pebble reports damage.
func (d *DB) noteDamage(err error) error {
	if !isDamage(err) {
		return err
	}
	d.setDamaged(err.Error())
	return fmt.Errorf("%w: %w", ErrFailed, err)
}

// setDamaged fails the index and leaves the mark. It does not wait for the
// disk: it may be called by Pebble, with locks held.
func (d *DB) setDamaged(reason string) {
	d.damaged.Store(true)
	if !d.opts.ReadOnly {
		d.damageMark.write(func() {
			// Without the mark the next Open has to meet the damage itself.
			_ = writeMark(d.opts.FS, d.opts.Dir, reason)
		})
	}
	d.fail.set(reason)
}

// markWriter writes the damage mark once. Pebble may report damage at any time,
// also while the index closes: from then on the directory is not ours to write
// to.
type markWriter struct {
	mu      sync.Mutex
	closed  bool
	written chan struct{} // closed when the mark is; nil: nobody writes it
}

// write has work done on a goroutine of its own, unless there is a mark or the
// index closes.
func (m *markWriter) write(work func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed || m.written != nil {
		return
	}
	written := make(chan struct{})
	m.written = written
	go func() {
		defer close(written)
		work()
	}()
}

// close waits until a mark that was begun is written, or for the context. None
// is begun any more.
func (m *markWriter) close(ctx context.Context) {
	m.mu.Lock()
	m.closed = true
	written := m.written
	m.mu.Unlock()
	if written == nil {
		return
	}
	select {
	case <-written:
	case <-ctx.Done():
	}
}

func writeMark(fs vfs.FS, dir, reason string) (err error) {
	f, err := fs.Open(path.Join(dir, DamageMark), vfs.Create|vfs.ReadWrite|vfs.Trunc)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.WriteAt([]byte(reason+"\n"), 0); err != nil {
		return err
	}
	if err := f.Datasync(); err != nil {
		return err
	}
	return fs.SyncDir(dir)
}

// checkMark is an error if an earlier run left the mark.
func checkMark(o Options) error {
	_, err := o.FS.Stat(path.Join(o.Dir, DamageMark))
	switch {
	case err == nil:
		return fmt.Errorf("%w: damage was met before, see %s", ErrDamaged, path.Join(o.Dir, DamageMark))
	case vfs.IsNotExist(err):
		return nil
	}
	return fmt.Errorf("index: stat %s: %w", DamageMark, err)
}
