package engine

import (
	"context"
	"log/slog"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// Admission decides which new blocks are worth a write.
type Admission uint8

const (
	// AdmitAll stores every block.
	AdmitAll Admission = iota
	// AdmitSecondTouch stores a block only if its hash was put, matched or
	// asked for before, as remembered by a bounded ghost set.
	AdmitSecondTouch
)

// Options configures a store. The zero value of each field means its default.
type Options struct {
	// CapacityBytes bounds all disk bytes of the store: segments, log, index,
	// quarantine, files unlinked but still open. The default is 80 % of what
	// the file system has free at Open, the store's own bytes included; on a
	// file system in memory at most half the control group's memory limit.
	CapacityBytes int64
	// FreeFloorBytes is left free on the file system for others. The default
	// is 1 % of the file system, at most 1 GiB.
	FreeFloorBytes int64
	// MaxBlockBytes is the largest block accepted. The default is 64 MiB, the
	// most the format allows; a smaller value permits smaller segments and so
	// a smaller store.
	MaxBlockBytes int64
	// SegmentBytes applies when a store is created. The default is
	// capacity/64, at least max(8 MiB, 2 x MaxBlockBytes), at most 1 GiB.
	SegmentBytes int64
	// Path forces a way of moving bytes; see PathChoice. The default, PathAuto,
	// takes the fastest of those that a probe of the directory proves.
	Path PathChoice
	// ReadOnly opens without changing anything in the directory; puts are shed.
	ReadOnly bool
	// CreateOnly fails if there is a store; MustExist fails if there is none.
	CreateOnly, MustExist bool
	// OnIncompatible says what to do about a store of an unknown format, or one
	// damaged beyond opening. The default is IncompatibleRefuse.
	OnIncompatible OnIncompatible

	// MaxInflightBytes bounds buffers of puts and gets under way and, to half of
	// it, the memory that View lends. A put over it is shed; a get waits for its
	// turn until its context ends. The default is 256 MiB, at least 4 x
	// MaxBlockBytes. Under a memory limit of the control group the defaults of
	// this field and of IndexCacheBytes are lowered so that all budgets together
	// stay within a quarter of it.
	MaxInflightBytes int64
	// WriteInflightBytes bounds the bytes of blocks that puts have with the
	// device at a time, so that reads find it free in between. More than it
	// wait for their turn, until their context ends; a larger block passes
	// alone. The default is 16 MiB, the least 1 MiB.
	WriteInflightBytes int64
	// MaxPendingBytes bounds what is written but not yet applied to the index;
	// over it puts are shed until the next sync. The default is 512 MiB.
	MaxPendingBytes int64
	// MaxOpenFiles bounds descriptors of segments and sidecars. Default 256.
	MaxOpenFiles int
	// ReadWorkers is the number of threads that read. Default 32, at most 64.
	ReadWorkers int
	// SubmitQueue bounds operations given to Submit and not yet completed.
	// Default 1024.
	SubmitQueue int
	// SyncInterval and SyncBytes decide how much a power cut may take: a group
	// sync runs at the latest after either. Defaults 1 s and 256 MiB.
	SyncInterval time.Duration
	SyncBytes    int64
	// CallTimeout bounds calls whose context has no deadline, in the parts
	// that wait for a device or the index. The default is 30 s.
	CallTimeout time.Duration
	// IndexCacheBytes is the block cache of the index. Default 64 MiB.
	IndexCacheBytes int64
	// HintBytes bounds a table, outside the Go heap, of the blocks that the
	// index holds: it answers most questions for blocks that are not stored
	// without asking the index. Some 20 bytes a block; a store of more blocks
	// than fit goes without. Default 64 MiB; negative: no table.
	HintBytes int64
	// HostCacheBytes bounds a cache of verified blocks in memory, before the
	// disk: blocks that are put, or read whole, enter it. All it holds counts,
	// with rounding and what finds it. The default, 0, is none. Under a memory
	// limit of the control group it gets at most half of that, less the other
	// budgets.
	HostCacheBytes int64

	// LeaseDuration is how long a Match keeps blocks. Default 60 s.
	LeaseDuration time.Duration
	// LeaseShare is the share of capacity that leases may hold. Default 0.25.
	LeaseShare float64
	// MoveShare is the share of a victim segment that eviction may move on
	// instead of dropping. Default 0.25; negative moves nothing unleased.
	MoveShare float64
	// Admission filters puts; WriteBudgetBytesPerDay sheds puts beyond it
	// (0 = no budget).
	Admission              Admission
	WriteBudgetBytesPerDay int64
	// NoSharing stores equal content once per key instead of once per tenant.
	NoSharing bool

	// ScrubCycle is the time in which all that is stored is read and verified
	// once in the background, over and over: at an even pace, making way for
	// gets and puts. The default is 14 days, the least an hour; negative: never.
	ScrubCycle time.Duration
	// ScrubRateMax bounds the bytes per second that are read for it, also where
	// it is late. The default is 100 MiB, the least 1 MiB.
	ScrubRateMax int64

	// Logger gets one line per change of state. The default is silence.
	Logger *slog.Logger
	// OnEvent is called for each event, one at a time, from goroutines of the
	// store; it must not call the store. Events are also kept in a ring.
	OnEvent func(Event)
	// Progress is told how far a rebuild at Open is.
	Progress func(doneBytes, totalBytes int64)

	private privateOptions
}

// privateOptions is what tests inject.
type privateOptions struct {
	fs            vfs.FS           // instead of the operating system's
	now           func() time.Time // instead of time.Now
	points        func(point string)
	uuid          [16]byte
	secret        [32]byte
	noBackground  bool // no timers: tests drive sync, apply and evict
	workshop      bool // of an offline command: see workshopOptions
	memTableBytes int64
	memoryLimit   int64             // instead of the control group's; -1 is none
	inMemory      bool              // the file system keeps files in memory
	probe         *disk.ProbeReport // of the same file system, instead of trying it again
	logFileBytes  int64             // with indexBytes: instead of what room.go derives
	indexBytes    int64
	// sleep, instead of a timer, is how the scrubber waits.
	sleep func(ctx context.Context, d time.Duration) error
}

const (
	defaultMaxInflight  = 256 << 20
	defaultMaxPending   = 512 << 20
	defaultWriting      = 16 << 20
	minWriting          = 1 << 20
	defaultMaxOpenFiles = 256
	defaultReadWorkers  = 32
	maxReadWorkers      = 64
	defaultSubmitQueue  = 1024
	defaultSyncInterval = time.Second
	defaultSyncBytes    = 256 << 20
	defaultCallTimeout  = 30 * time.Second
	defaultIndexCache   = 64 << 20
	defaultHintBytes    = 64 << 20
	defaultLease        = 60 * time.Second
	defaultLeaseShare   = 0.25
	defaultMoveShare    = 0.25
)

func orDefault[T int | int64 | float64 | time.Duration](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}

// withDefaults fills in everything but capacity and segment size, which need
// the directory.
func (o Options) withDefaults() (Options, error) {
	orDefault(&o.MaxBlockBytes, MaxBlockBytes)
	if o.MaxBlockBytes < 1 || o.MaxBlockBytes > MaxBlockBytes {
		return o, invalidf("MaxBlockBytes %d is outside 1..%d", o.MaxBlockBytes, int64(MaxBlockBytes))
	}
	if o.CapacityBytes < 0 || o.SegmentBytes < 0 || o.FreeFloorBytes < 0 || o.WriteBudgetBytesPerDay < 0 || o.HostCacheBytes < 0 {
		return o, invalidf("negative size in Options")
	}
	o.fitMemory(o.memoryLimit())
	orDefault(&o.WriteInflightBytes, defaultWriting)
	o.WriteInflightBytes = max(o.WriteInflightBytes, minWriting)
	orDefault(&o.MaxPendingBytes, defaultMaxPending)
	orDefault(&o.MaxOpenFiles, defaultMaxOpenFiles)
	orDefault(&o.ReadWorkers, defaultReadWorkers)
	o.ReadWorkers = min(o.ReadWorkers, maxReadWorkers)
	orDefault(&o.SubmitQueue, defaultSubmitQueue)
	orDefault(&o.SyncInterval, defaultSyncInterval)
	orDefault(&o.SyncBytes, defaultSyncBytes)
	orDefault(&o.CallTimeout, defaultCallTimeout)
	orDefault(&o.LeaseDuration, defaultLease)
	orDefault(&o.LeaseShare, defaultLeaseShare)
	orDefault(&o.MoveShare, defaultMoveShare)
	orDefault(&o.ScrubCycle, defaultScrubCycle)
	orDefault(&o.ScrubRateMax, defaultScrubRate)
	if o.MoveShare < 0 {
		o.MoveShare = 0
	}
	if o.LeaseShare < 0 || o.LeaseShare > 1 || o.MoveShare > 1 {
		return o, invalidf("LeaseShare %v and MoveShare %v must lie in 0..1", o.LeaseShare, o.MoveShare)
	}
	var err error
	if o.Path, err = ParsePath(string(o.Path)); err != nil {
		return o, err
	}
	if o.OnIncompatible, err = ParseOnIncompatible(string(o.OnIncompatible)); err != nil {
		return o, err
	}
	if o.OnIncompatible == IncompatibleSetAside && (o.ReadOnly || o.MustExist) {
		return o, invalidf("OnIncompatible %s begins a new store, which ReadOnly and MustExist forbid", o.OnIncompatible)
	}
	if o.CreateOnly && o.MustExist {
		return o, invalidf("CreateOnly and MustExist exclude each other")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.private.now == nil {
		o.private.now = time.Now
	}
	if o.private.points == nil {
		o.private.points = func(string) {}
	}
	return o, nil
}
