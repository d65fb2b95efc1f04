package wal

import (
	"errors"
	"fmt"
	"path"
	"sync"
)

// bufferKeepBytes is the largest group buffer kept between appends.
const bufferKeepBytes = 4 << 20

// Log is a log open for writing. All methods may be called concurrently.
type Log struct {
	o Options

	// Locks are taken in this order. appendMu makes appends one after the
	// other; syncMu lets one fdatasync run at a time, because of two on one
	// file the second may report success for bytes that the first was told
	// are lost; trimMu is for removals; mu is held for moments only.
	appendMu sync.Mutex
	syncMu   sync.Mutex
	trimMu   sync.Mutex
	mu       sync.Mutex

	// Under appendMu. cur is also read under syncMu and changes under both.
	cur   *tailFile
	chain uint64
	buf   []byte

	// Under mu.
	files   []ownedFile // oldest first; the last is cur
	own     LSN         // base of the first file that this Log made
	end     LSN
	synced  LSN
	mark    LSN
	pending int64 // bytes of a file being created
	failure error // *PoisonedError
	closed  bool
	appends uint64
	syncs   uint64
}

// ownedFile is a file of the directory, ours or one found there.
type ownedFile struct {
	base           LSN
	allocatedBytes int64
}

// Create starts a new log in o.Dir, which it makes if needed. The file's name
// and its header are durable when it returns.
//
// The log starts at base, rounded up to a valid position, and moved past
// every position that a file of the directory can hold, so that no LSN is used
// twice: Log.End tells where. Existing files stay as they are; while they do,
// Recover reads them before the new log. Fails with ErrUnsupported where one
// of them may not be written beside.
func Create(o Options, base LSN) (*Log, error) {
	if err := o.checkWrite(); err != nil {
		return nil, err
	}
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, fmt.Errorf("wal: make directory %s: %w", o.Dir, err)
	}
	if err := o.FS.SyncDir(path.Dir(o.Dir)); err != nil {
		return nil, fmt.Errorf("wal: sync directory of %s: %w", o.Dir, err)
	}
	bases, _, err := listBases(&o)
	if err != nil {
		return nil, err
	}
	found, err := readHeaders(&o, bases)
	if err != nil {
		return nil, err
	}
	l := &Log{o: o}
	base = max(base, MinLSN)
	for _, f := range found {
		if err := f.h.unknownROCompat(f.path); err != nil {
			return nil, err
		}
		l.files = append(l.files, ownedFile{base: f.base, allocatedBytes: f.sizeBytes})
		base = max(base, f.base+LSN(max(f.sizeBytes-headerBytes, frameAlign)))
	}
	if base > MaxLSN-frameAlign {
		return nil, fmt.Errorf("%w: base LSN %d is above %d", ErrInvalidOptions, uint64(base), uint64(MaxLSN))
	}
	base = LSN(alignUp(int64(base)))
	t, err := createFile(&o, header{base: base})
	if err != nil {
		return nil, err
	}
	l.own, l.end, l.synced = base, base, base
	l.use(t)
	return l, nil
}

// use makes t the file that groups go to.
func (l *Log) use(t *tailFile) {
	l.cur, l.chain = t, t.h.sum
	l.files = append(l.files, ownedFile{base: t.h.base, allocatedBytes: l.o.SegmentBytes})
}

// usable returns why the log takes nothing more, or nil.
func (l *Log) usable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.usableLocked()
}

func (l *Log) usableLocked() error {
	if l.closed {
		return ErrClosed
	}
	return l.failure
}

// poison keeps the first failure and returns it.
func (l *Log) poison(op, file string, cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failure == nil {
		l.failure = &PoisonedError{Op: op, File: file, Cause: cause}
	}
	return l.failure
}

// End is the position behind the last group: where the next one starts.
func (l *Log) End() LSN {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// SetMark sets the mark that the following commit frames carry. It never
// moves back, and a commit frame holds it to what is durable then.
func (l *Log) SetMark(m LSN) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mark = max(l.mark, m)
}

// Discard closes a log to which nothing refers and removes the files that it
// made. What can not be removed holds whole groups, or the torn end of one.
func (l *Log) Discard() error {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	own := l.own
	files := l.files
	closed := l.closed
	l.closed = true
	l.mu.Unlock()
	if closed {
		return ErrClosed
	}
	errs := []error{l.cur.f.Close()}
	for i := len(files) - 1; i >= 0 && files[i].base >= own; i-- { // the newest first: no hole
		errs = append(errs, l.o.FS.Remove(l.o.path(files[i].base)))
	}
	return errors.Join(append(errs, l.o.FS.SyncDir(l.o.Dir))...)
}

// Close writes a last commit frame with mark and synced position, makes the
// log durable and closes it. On a poisoned log it only closes, and returns
// ErrPoisoned: nothing past the last good Sync is sure. Further calls fail with
// ErrClosed.
func (l *Log) Close() error {
	l.appendMu.Lock()
	defer l.appendMu.Unlock()
	err := l.usable()
	if err == ErrClosed {
		return err
	}
	if err == nil {
		_, err = l.Sync() // so that the last frame proves all before it
	}
	if err == nil {
		_, _, err = l.appendGroup(nil)
	}
	if err == nil {
		_, err = l.Sync()
	}
	l.syncMu.Lock()
	defer l.syncMu.Unlock()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	if cerr := l.cur.f.Close(); err == nil && cerr != nil {
		err = fmt.Errorf("wal: close %s: %w", l.cur.path, cerr)
	}
	return err
}
