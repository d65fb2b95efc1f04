package index

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/sealstone/sealstone/internal/vfs"
)

// Errors of the index.
var (
	// ErrFailed: Pebble gave up (its Fatalf was called) or a record did not
	// decode. The index answers nothing any more; the directory can be opened
	// by another process.
	ErrFailed = errors.New("index: failed")
	// ErrBusy: the call did not come to its turn, or Pebble did not answer,
	// within the context.
	ErrBusy = errors.New("index: no answer in time")
	// ErrDamaged: the files of the index do not verify; a rebuild is needed.
	ErrDamaged = errors.New("index: damaged")
	// ErrIncomplete: no index is there, its rebuild did not finish, or it is of
	// an older version; a rebuild is needed.
	ErrIncomplete = errors.New("index: absent or incomplete")
	// ErrNewer: the index was written by a later version of this program. It
	// is refused rather than rebuilt, as that version's store may be in use.
	ErrNewer = errors.New("index: of a newer version")
)

// failure remembers the first reason why the index can not go on.
type failure struct {
	once   sync.Once
	failed atomic.Bool
	reason string // read once failed is set
	cause  error  // likewise: what the reason was made of, or nil
	tell   func(reason string)
	now    chan struct{} // closed when failed
}

// set fails the index. Whoever learns of it, by set's return, err or now, does
// so after tell has returned: a late word must not hit what replaces the index.
func (f *failure) set(reason string) { f.setCause(reason, nil) }

func (f *failure) setCause(reason string, cause error) {
	f.once.Do(func() {
		f.reason, f.cause = reason, cause
		if f.tell != nil {
			f.tell(reason)
		}
		f.failed.Store(true)
		close(f.now)
	})
}

func (f *failure) err() error {
	if !f.failed.Load() {
		return nil
	}
	if f.cause != nil {
		return &failedError{f.reason, f.cause}
	}
	return fmt.Errorf("%w: %s", ErrFailed, f.reason)
}

// failedError is ErrFailed with the error of the system that led to it, which
// the reason has in its words already.
type failedError struct {
	reason string
	cause  error
}

func (e *failedError) Error() string   { return ErrFailed.Error() + ": " + e.reason }
func (e *failedError) Unwrap() []error { return []error{ErrFailed, e.cause} }

// ofSystem reports whether the index failed on an error of the system, such as
// a full disk. Its files are then what they were.
func (f *failure) ofSystem() bool {
	var errno syscall.Errno
	return f.failed.Load() && errors.As(f.cause, &errno) && !vfs.IsNotExist(f.cause)
}

// logger is what Pebble logs to. Pebble calls Fatalf where it can not go on
// and relies on it not to return: the default ends the process. Ours marks
// the index failed and parks the goroutine for good; whatever it held (locks
// among it) stays held, which is why every call into Pebble runs on a worker
// that its caller can leave behind.
type logger struct{ f *failure }

func (l logger) Infof(string, ...any)  {}
func (l logger) Errorf(string, ...any) {}
func (l logger) Fatalf(format string, args ...any) {
	if canaryLaw5 {
		canaryExit()
	}
	var cause error
	for _, a := range args {
		if err, ok := a.(error); ok && cause == nil {
			cause = err
		}
	}
	l.f.setCause("pebble: "+fmt.Sprintf(format, args...), cause)
	select {}
}

const (
	backoffFirst = 10 * time.Millisecond
	backoffMax   = time.Second
	// backgroundTriesMax is how many failures in a row, some two seconds, make
	// background work hopeless to whoever can not wait for the device.
	backgroundTriesMax = 8
)

// listener replaces those hooks of Pebble that end the process or spin.
func (d *DB) listener() *pebble.EventListener {
	l := pebble.EventListener{
		// By default this one is Fatalf.
		DataCorruption: func(i pebble.DataCorruptionInfo) {
			d.setDamaged(fmt.Sprintf("damaged file %s: %v", i.Path, i.Details))
		},
		// A flush that fails, on a full disk say, is tried again at once and
		// for ever; sleeping here is what slows it down.
		BackgroundError: func(err error) { d.backgroundError(err) },
		FlushEnd: func(i pebble.FlushInfo) {
			if i.Err == nil {
				d.backgroundOK()
			}
		},
		WriteStallBegin: func(pebble.WriteStallBeginInfo) { d.stalled.Store(true) },
		WriteStallEnd:   func() { d.stalled.Store(false) },
	}
	l.EnsureDefaults(logger{&d.fail})
	return &l
}

func (d *DB) backgroundError(err error) {
	d.bg.mu.Lock()
	first := d.bg.err == nil
	d.bg.err = err
	d.bg.backoff = min(max(2*d.bg.backoff, backoffFirst), backoffMax)
	wait := d.bg.backoff
	d.bg.failedLocked()
	d.bg.mu.Unlock()
	d.bg.count.Add(1)
	if isDamage(err) {
		d.setDamaged("background work met damage: " + err.Error())
	} else if first && d.opts.OnTrouble != nil {
		d.opts.OnTrouble("index background work fails: " + err.Error())
	}
	if d.fail.err() != nil {
		select {} // nothing that it tries can succeed any more
	}
	time.Sleep(wait) // also of an index that was left behind in Close: it would spin
}

func (d *DB) backgroundOK() {
	d.bg.mu.Lock()
	defer d.bg.mu.Unlock()
	if d.bg.streak >= backgroundTriesMax {
		d.bg.given = nil // closed; another wait begins anew
	}
	d.bg.err, d.bg.backoff, d.bg.streak = nil, 0, 0
}

// Trouble is the last error of Pebble's background work that has not been
// followed by a success, or nil.
func (d *DB) Trouble() error {
	d.bg.mu.Lock()
	defer d.bg.mu.Unlock()
	return d.bg.err
}

type background struct {
	mu      sync.Mutex
	err     error
	backoff time.Duration
	streak  int           // failures in a row
	given   chan struct{} // closed when they are too many; nil: nobody waits
	count   atomic.Uint64
}

func (b *background) failedLocked() {
	if b.streak++; b.streak == backgroundTriesMax && b.given != nil {
		close(b.given)
	}
}

// hopeless is closed once background work has failed too often in a row.
func (b *background) hopeless() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.given == nil {
		b.given = make(chan struct{})
		if b.streak >= backgroundTriesMax {
			close(b.given)
		}
	}
	return b.given
}

// flushOrGiveUp is a flush for Open and Close, whose callers wait: Pebble tries
// one that fails for ever. What is not flushed is in the log.
func (d *DB) flushOrGiveUp() error {
	done, err := d.db.AsyncFlush()
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-d.bg.hopeless():
		return fmt.Errorf("index: flush failed %d times: %w", backgroundTriesMax, d.Trouble())
	}
}
