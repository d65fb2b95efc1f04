package index

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/sealstone/sealstone/internal/vfs"
)

// FormatVersion is the Pebble format that indexes are written in. It only
// ratchets forward on disk, so it is pinned here and raised by an explicit
// command alone.
const FormatVersion = uint32(pebble.FormatTableFormatV6)

// recordVersion is that of the records in the index. An index with another one
// is not read: an older one is rebuilt, a newer one refused. One of
// countlessVersion lacks nothing but the u records, and gets them at Open.
const (
	recordVersion    = RecordVersion
	countlessVersion = 2
)

// RecordVersion is the version of the records that this release writes.
const RecordVersion = 3

// Limits and defaults.
const (
	workers           = 16
	queueLength       = 256
	memTablesMax      = 4
	defaultMemTable   = 16 << 20
	bloomBitsPerKey   = 10
	compactionWorkers = 2
	// tableBlockBytes: a block of columns costs some 100 bytes by itself, so one
	// larger than the usual 4 KiB makes the index smaller.
	tableBlockBytes = 8 << 10
)

// ErrClosed: the index was closed.
var ErrClosed = errors.New("index: closed")

// Options configures Open.
type Options struct {
	FS       vfs.FS
	Dir      string // directory within FS
	UUID     [16]byte
	ReadOnly bool
	// CacheBytes is Pebble's block cache. Memtables are taken from it, so it
	// should exceed 4 x MemTableBytes.
	CacheBytes int64
	// MemTableBytes decides how often the index is flushed, and so how much
	// of the log a crash replays. The default is 16 MiB.
	MemTableBytes int64
	// OnFail is called once when the index fails, OnTrouble when background
	// work begins to fail. Neither may call the index.
	OnFail    func(reason string)
	OnTrouble func(reason string)
	// OnChange is told what an Update has bound and unbound, in that order:
	// after it is visible and before Update returns. It may not call the index.
	OnChange func([]Change)
}

// DB is an open index.
type DB struct {
	opts      Options
	db        *pebble.DB
	pool      *pool
	fail      failure
	bg        background
	damaged   atomic.Bool
	stalled   atomic.Bool
	closing   chan struct{}
	closeOnce sync.Once
	flushing  chan struct{} // full while a Flush runs
	// use is held shared by each call into Pebble, and alone by its end: an
	// iterator of a call whose caller has left must not outlive Pebble.
	use        sync.RWMutex
	gone       bool                      // guarded by use
	lock       atomic.Pointer[io.Closer] // Pebble's, on its directory
	damageMark markWriter

	usesMu sync.Mutex
	uses   uses
	// countless: the records of an index that is only looked at have no uses.
	countless bool
}

func (d *DB) pebbleOptions() *pebble.Options {
	o := &pebble.Options{
		FS:                          pebbleFS{fs: d.opts.FS, fail: &d.fail, locked: func(c io.Closer) { d.lock.Store(&c) }},
		DisableWAL:                  true,
		FormatMajorVersion:          pebble.FormatMajorVersion(FormatVersion),
		CacheSize:                   d.opts.CacheBytes,
		MemTableSize:                uint64(d.opts.MemTableBytes),
		MemTableStopWritesThreshold: memTablesMax,
		Logger:                      logger{&d.fail},
		EventListener:               d.listener(),
		ReadOnly:                    d.opts.ReadOnly,
		CompactionConcurrencyRange:  func() (int, int) { return 1, compactionWorkers },
	}
	for i := range o.Levels {
		// Hashes are random: compression costs and saves nothing.
		o.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression }
		o.Levels[i].FilterPolicy = newFilterPolicy()
		o.Levels[i].BlockSize = tableBlockBytes
		o.Levels[i].FilterType = pebble.TableFilter
	}
	return o
}

// Open opens or creates the index in o.Dir. An index that is there but not
// complete (see MarkComplete), of an older version, or damaged, is an error:
// ErrIncomplete, ErrDamaged. The caller removes the directory, and calls
// Create. ErrNewer is one that a later version of this program has made.
func Open(ctx context.Context, o Options) (*DB, error) {
	if _, err := o.FS.Stat(o.Dir); err != nil {
		if vfs.IsNotExist(err) {
			return nil, fmt.Errorf("%w: %s is not there", ErrIncomplete, o.Dir)
		}
		return nil, fmt.Errorf("index: stat %s: %w", o.Dir, err)
	}
	d, err := open(ctx, o)
	if err != nil {
		return nil, err
	}
	_, err = call(ctx, d, func() (struct{}, error) {
		version, err := d.checkComplete()
		if err != nil {
			return struct{}{}, err
		}
		return struct{}{}, d.openUses(version)
	})
	if err != nil {
		_ = d.Close(ctx)
		return nil, d.classify(err)
	}
	return d, nil
}

// Create makes a new, empty index in o.Dir, which must not hold one. It does
// not count as present until MarkComplete.
func Create(ctx context.Context, o Options) (*DB, error) {
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, fmt.Errorf("index: create %s: %w", o.Dir, err)
	}
	if err := o.FS.SyncDir("."); err != nil {
		return nil, fmt.Errorf("index: create %s: %w", o.Dir, err)
	}
	return open(ctx, o)
}

func open(ctx context.Context, o Options) (*DB, error) {
	if o.MemTableBytes == 0 {
		o.MemTableBytes = defaultMemTable
	}
	d := &DB{opts: o, uses: uses{}, closing: make(chan struct{}), flushing: make(chan struct{}, 1), fail: failure{tell: o.OnFail, now: make(chan struct{})}}
	d.pool = newPool(workers, queueLength)
	if err := d.openPebble(ctx); err != nil {
		err = d.classify(err)
		_ = d.Close(ctx)
		return nil, err
	}
	return d, nil
}

// openPebble opens Pebble on a worker. What comes of it after the caller has
// left is closed again, or it would hold the directory for good.
func (d *DB) openPebble(ctx context.Context) error {
	var mu sync.Mutex
	var opened *pebble.DB
	left := false
	_, err := call(ctx, d, func() (struct{}, error) {
		if err := checkMark(d.opts); err != nil {
			return struct{}{}, err
		}
		o := d.pebbleOptions()
		compactions := newScheduler()
		o.Experimental.CompactionScheduler = compactions
		db, err := pebble.Open(d.opts.Dir, o)
		if err != nil {
			return struct{}{}, err
		}
		compactions.start()
		mu.Lock()
		defer mu.Unlock()
		if left {
			return struct{}{}, db.Close()
		}
		opened = db
		return struct{}{}, nil
	})
	mu.Lock()
	defer mu.Unlock()
	left, d.db = true, opened
	return err
}

// classify tells damage from other errors of opening: what is not an error of
// the operating system says that the files contradict each other, and a file
// that is referred to and absent is damage too. A lock that is held is not: it
// is that of an index left behind in this process.
func (d *DB) classify(err error) error {
	if err == nil || errors.Is(err, ErrIncomplete) || errors.Is(err, ErrNewer) || errors.Is(err, ErrBusy) {
		return err
	}
	var errno syscall.Errno
	if errors.As(err, &errno) && !vfs.IsNotExist(err) || errors.Is(err, vfs.ErrLocked) {
		return fmt.Errorf("index: open %s: %w", d.opts.Dir, err)
	}
	return fmt.Errorf("%w: %w", ErrDamaged, err)
}

// checkComplete looks for the mark of a whole index of this store, and of a
// version that can be read, which it returns.
func (d *DB) checkComplete() (version int, err error) {
	v, closer, err := d.db.Get(metaComplete)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, fmt.Errorf("%w: %s has no completion mark", ErrIncomplete, d.opts.Dir)
	}
	if err != nil {
		return 0, err
	}
	defer closer.Close()
	if len(v) < len(d.opts.UUID) || string(v[:len(d.opts.UUID)]) != string(d.opts.UUID[:]) {
		return 0, fmt.Errorf("%w: %s has the completion mark of another store", ErrIncomplete, d.opts.Dir)
	}
	version = 1 // had none
	if rest := v[len(d.opts.UUID):]; len(rest) > 0 {
		version = int(rest[0])
	}
	switch {
	case version < countlessVersion:
		return 0, fmt.Errorf("%w: %s holds records of version %d, this program writes %d", ErrIncomplete, d.opts.Dir, version, recordVersion)
	case version > recordVersion:
		return 0, fmt.Errorf("%w: %s holds records of version %d, this program knows %d", ErrNewer, d.opts.Dir, version, recordVersion)
	}
	return version, nil
}

// mark is that of a whole index of this store and version.
func (d *DB) mark() []byte { return append(d.opts.UUID[:], recordVersion) }

// MarkComplete flushes everything and then the mark that makes the index
// count: a rebuild that was cut short is not mistaken for an index.
func (d *DB) MarkComplete(ctx context.Context) error {
	_, err := call(ctx, d, func() (struct{}, error) {
		if err := d.flushOrGiveUp(); err != nil {
			return struct{}{}, err
		}
		if err := d.db.Set(metaComplete, d.mark(), pebble.NoSync); err != nil {
			return struct{}{}, err
		}
		return struct{}{}, d.flushOrGiveUp()
	})
	return d.noteDamage(err)
}

// Flush makes everything committed so far durable. One runs at a time: while
// the device hangs, tries that came after it would take all workers.
func (d *DB) Flush(ctx context.Context) error {
	select {
	case d.flushing <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("%w: an earlier flush has not ended: %w", ErrBusy, ctx.Err())
	case <-d.fail.now:
		return d.fail.err()
	case <-d.closing:
		return ErrClosed
	}
	_, err := call(ctx, d, func() (struct{}, error) {
		defer func() { <-d.flushing }()
		return struct{}{}, d.db.Flush()
	})
	if errors.Is(err, errNotBegun) {
		<-d.flushing
	}
	return d.noteDamage(err)
}

// Applied is the log position up to which records are applied.
func (d *DB) Applied(ctx context.Context) (uint64, error) { return d.applied(ctx, false) }

// DurableApplied is the log position that a power cut would leave: the log
// may be trimmed up to it.
func (d *DB) DurableApplied(ctx context.Context) (uint64, error) { return d.applied(ctx, true) }

func (d *DB) applied(ctx context.Context, durable bool) (uint64, error) {
	v, err := call(ctx, d, func() (v uint64, err error) {
		it, err := d.db.NewIter(&pebble.IterOptions{
			LowerBound:                []byte{kindMeta},
			UpperBound:                []byte{kindMeta + 1},
			OnlyReadGuaranteedDurable: durable,
		})
		if err != nil {
			return 0, err
		}
		defer func() { err = errors.Join(err, it.Close()) }()
		if it.SeekGE(metaApplied) && string(it.Key()) == string(metaApplied) {
			if len(it.Value()) != 8 {
				return 0, errBadRecord
			}
			return binary.LittleEndian.Uint64(it.Value()), nil
		}
		return 0, it.Error()
	})
	return v, d.noteDamage(err)
}

// Err is the reason why the index failed, or nil.
func (d *DB) Err() error { return d.fail.err() }

// Damaged reports whether the index failed for a reason that a rebuild mends:
// its files do not verify, or Pebble stumbled over them. An error of the system,
// a full disk among them, is none.
func (d *DB) Damaged() bool { return d.damaged.Load() || d.fail.err() != nil && !d.fail.ofSystem() }

// Stalled reports whether Pebble holds writers back.
func (d *DB) Stalled() bool { return d.stalled.Load() }

// Stats are figures for metrics.
type Stats struct {
	DiskBytes        int64
	WrittenBytes     int64 // flushed and compacted
	CacheBytes       int64
	BackgroundErrors uint64
}

// Stats never waits: with a failed or busy index it is zero.
func (d *DB) Stats(ctx context.Context) Stats {
	s, _ := call(ctx, d, func() (Stats, error) {
		m := d.db.Metrics()
		s := Stats{DiskBytes: int64(m.DiskSpaceUsage()), CacheBytes: m.BlockCache.Size}
		for i := range m.Levels {
			s.WrittenBytes += int64(m.Levels[i].TableBytesFlushed + m.Levels[i].TableBytesCompacted)
		}
		return s, nil
	})
	s.BackgroundErrors = d.bg.count.Load()
	return s
}

// Close flushes and closes the index. A failed or wedged one is left alone:
// Close returns the reason, at the latest when the context ends.
func (d *DB) Close(ctx context.Context) error {
	var err error
	d.closeOnce.Do(func() { err = d.close(ctx) })
	return err
}

func (d *DB) close(ctx context.Context) error {
	err := d.fail.err()
	if err == nil && d.db != nil {
		_, err = submit(ctx, d, func() (struct{}, error) {
			d.use.Lock()
			defer d.use.Unlock()
			d.gone = true
			var flushErr error
			if !d.opts.ReadOnly {
				flushErr = d.flushOrGiveUp()
			}
			return struct{}{}, errors.Join(flushErr, d.db.Close())
		})
	}
	d.damageMark.close(ctx)
	if lock := d.lock.Load(); d.fail.err() != nil && lock != nil {
		// Pebble is left behind and can change nothing any more: whoever opens
		// the index next need not wait for the end of the process.
		err = errors.Join(err, (*lock).Close())
	}
	close(d.closing)
	close(d.pool.stop)
	// With a failed index a call that waits in the queue may yet go into a
	// Pebble that never answers; the other workers end by themselves.
	if d.fail.err() == nil && d.pool.running.Load() == 0 {
		d.pool.wg.Wait()
	}
	return err
}
