package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/tiers/host"
	"github.com/sealstone/sealstone/wal"
)

// Store is an open store. It owns its directory until Close.
type Store struct {
	o    Options
	dir  string
	fs   vfs.FS
	uuid [16]byte
	key  sums.Key
	room room

	closeFS    func() error
	lock       *meta.Lock
	meta       *meta.Meta
	log        *wal.Log
	idx        *index.DB
	hint       *hintTable        // nil: none
	host       *host.Cache       // nil: none
	probe      *disk.ProbeReport // set once by Open
	vol        *disk.Volume
	paths      ioPaths
	pool       *aligned.Pool
	readerPool *aligned.Pool // bounce buffers of the reader
	// hostAskedBytes is HostCacheBytes before a memory limit lowered it.
	hostAskedBytes int64
	memory         memoryMap     // handed out by NewBuffer
	movePool       *aligned.Pool // of eviction, which must not wait for puts that wait for it
	strangeBytes   int64         // of files in the directory that are not ours
	slots          *lane         // of puts, gets and drops
	asks           *lane         // of what needs the index alone: Match, Has, Touch
	controls       *lane         // of Namespace, BumpEpoch, EvictOnce
	builders       chan struct{} // copying and hashing for puts
	gate           *byteGate     // of what puts have with the device
	lent           *byteGate     // of the memory that views hold
	queue          *submitQueue
	buffers        atomic.Int64 // bytes handed out by NewBuffer

	events *eventRing
	health health
	count  counters
	used   usedBlocks
	// deviceFiles are those that direct paths to GPUs may keep open.
	deviceFiles deviceFiles
	leases      leaseTable
	ghost       ghostSet
	budget      writeBudget
	storm       stormGuard
	scrub       *scrubber

	// orderMu is the order of the log: a record is appended, and its effect
	// entered below, while it is held; so is an epoch floor raised. It is taken
	// before mu, and may be held as long as the device hangs: only by who runs
	// on a goroutine of the store.
	orderMu sync.Mutex
	// reserveMu lets one reservation of ids and sequences run at a time. It is
	// held as long as that takes, too.
	reserveMu sync.Mutex
	// mu guards the protocol's state below. It is held for moments only, never
	// over I/O: a device that hangs must not hold up who only asks.
	mu           sync.Mutex
	overlay      overlay
	inflight     map[index.Key]*inflightPut
	pending      []*record // logged and not applied, in log order
	pendingBytes int64     // of their extents
	unsynced     int64     // bytes appended since the last sync
	mark         wal.LSN   // durable up to here
	applied      wal.LSN   // applied up to here
	trimmed      wal.LSN   // the log is not needed before
	evictOpen    wal.LSN   // an EVICT whose unlink is not durable, or 0
	sequences    idRange
	segmentIDs   idRange
	spaces       map[uint32]*space
	accounts     map[string]*account // by tenant
	segs         map[uint64]*segment
	active       [2]*segment               // by class
	spare        *segment                  // the next fresh one; see prepareSpare
	bad          map[disk.Address]struct{} // quarantine logged, not applied
	badGone      uint64                    // how many of those were applied
	// spoilt are addresses with a quarantine's tombstone: those last, so
	// they are not shared even after the record is applied (rule shareguard).
	spoilt map[disk.Address]struct{}
	broken error         // a sync or a log write failed: no more writes
	debts  debts         // what a failure left to be done before writing goes on
	moved  chan struct{} // closed and replaced when mark or applied move

	syncMu    sync.Mutex // one group sync at a time
	applyMu   sync.Mutex // one applier at a time
	live      map[uint64]int64
	unflushed int // records applied since the index was flushed; with applyMu
	// liveView is a copy of live for those outside applyMu.
	liveView atomic.Pointer[map[uint64]int64]
	evictMu  ctxMutex // one pass of eviction or compaction at a time
	// evictWanted counts evictions that wait for evictMu.
	evictWanted atomic.Int32
	rollMu      [2]ctxMutex

	indexDiskBytes atomic.Int64
	nextLog        *nextLog  // of a resume that did not come to its end; with evictMu
	resumeDue      time.Time // with resumeWait: when to try to write again
	resumeWait     time.Duration
	closing        atomic.Bool
	closeMu        ctxMutex
	closed         bool
	stopOnce       sync.Once
	stopped        chan struct{} // closed when nothing runs in the background
	releaseOnce    sync.Once
	released       chan struct{} // closed when releaseErr is set
	releaseErr     error
	stop           chan struct{}
	life           context.Context // ends with stop
	endLife        context.CancelFunc
	kickSync       chan struct{}
	kickApply      chan struct{}
	kickEvict      chan struct{}
	kickQuota      chan struct{}
	workers        sync.WaitGroup
	ops            opCounter
	openTime       time.Duration
	openClock      phaseClock
	rebuilds       int
}

// Classes of segments: moved blocks have proved useful and live apart from
// fresh ones.
const (
	classFresh = 0
	classMoved = 1
)

// segment is what the running store knows of a segment file. Guarded by
// Store.mu.
type segment struct {
	id      uint64
	class   uint8
	writer  *disk.Writer // nil once sealed
	retired bool         // takes no more extents
	sealed  bool
	sealing bool
	lost    bool // its last sync failed: never sealed, never trusted
	gone    bool // its file was removed by somebody else, which was said
	// inflight counts extents reserved and not logged (or given up), pending
	// records that were logged and not applied.
	inflight, pending int
	entries           []disk.FooterEntry
	// guests counts who must not see the segment go: puts that share one of
	// its extents, drops that write to its sidecar.
	guests   int
	victim   bool // an eviction pass has begun: nobody shares from it any more
	chosen   bool // the pass has chosen what it moves on
	evicted  bool // its EVICT is logged, up to evictEnd
	evictEnd wal.LSN
}

// space is a namespace as the running store sees it.
type space struct {
	meta.Namespace
	tenantID uint32
	// account is the tenant's; indexed and held are this namespace's part of it.
	account       *account
	indexed, held index.Use
	gpuDirect     atomic.Bool // see NamespaceOptions.GPUDirect
	// unanswered counts the calls in a row that found nothing; told: it was
	// said. See noteLookup.
	unanswered atomic.Int64
	told       atomic.Bool
}

// ctxMutex is a mutex whose Lock gives up with a context.
type ctxMutex chan struct{}

func newCtxMutex() ctxMutex { return make(ctxMutex, 1) }

func (m ctxMutex) lock(ctx context.Context) error {
	select {
	case m <- struct{}{}: // free: also for a context that has ended
		return nil
	default:
	}
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m ctxMutex) unlock() { <-m }

// kick wakes a background goroutine without waiting for it.
func kick(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// progressLocked tells all waiters that mark or applied moved.
func (s *Store) progressLocked() {
	close(s.moved)
	s.moved = make(chan struct{})
}

// floorOf returns the put sequence under which blocks of a namespace are
// dead.
func (s *Store) floorLocked(namespace uint32) uint64 {
	if sp := s.spaces[namespace]; sp != nil {
		return sp.Floor
	}
	return 0
}

// tenantOf numbers tenants by the lowest namespace they own.
func (s *Store) tenantOf(namespace uint32) uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sp := s.spaces[namespace]; sp != nil {
		return sp.tenantID
	}
	return namespace
}

func (s *Store) addSpaceLocked(n meta.Namespace) *space {
	sp := &space{Namespace: n, tenantID: n.Number, account: s.accountLocked(n.Tenant)}
	for _, other := range s.spaces {
		if other.Tenant == n.Tenant {
			sp.tenantID = min(sp.tenantID, other.tenantID)
		}
	}
	s.spaces[n.Number] = sp
	return sp
}
