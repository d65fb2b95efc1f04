package index

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
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
	tell   func(reason string)
	now    chan struct{} // closed when failed
}

// set fails the index. Whoever learns of it, by set's return, err or now, does
// so after tell has returned: a late word must not hit what replaces the index.
func (f *failure) set(reason string) {
	f.once.Do(func() {
		f.reason = reason
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
	return fmt.Errorf("%w: %s", ErrFailed, f.reason)
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
	l.f.set("pebble: " + fmt.Sprintf(format, args...))
	select {}
}

const (
	backoffFirst = 10 * time.Millisecond
	backoffMax   = time.Second
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
	d.bg.err, d.bg.backoff = nil, 0
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
	count   atomic.Uint64
}
