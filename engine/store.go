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

	closeFS      func() error
	lock         *meta.Lock
	meta         *meta.Meta
	log          *wal.Log
	idx          *index.DB
	hint         *hintTable        // nil: none
	probe        *disk.ProbeReport // set once by Open
	vol          *disk.Volume
	paths        ioPaths
	pool         *aligned.Pool
	readerPool   *aligned.Pool // bounce buffers of the reader
	memory       memoryMap     // handed out by NewBuffer
	movePool     *aligned.Pool // of eviction, which must not wait for puts that wait for it
	strangeBytes int64         // of files in the directory that are not ours
	slots        chan struct{} // operations running
	builders     chan struct{} // copying and hashing for puts
	gate         *writeGate
	queue        *submitQueue
	buffers      atomic.Int64 // bytes handed out by NewBuffer

	events *eventRing
	health health
	count  counters
	used   usedBlocks
	leases leaseTable
	ghost  ghostSet
	budget writeBudget
	storm  stormGuard

	// mu guards the protocol's state below and the order of the log: a record
	// is appended, and its effect entered here, in one critical section.
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
	seqNext      uint64
	seqBound     uint64
	segIDNext    uint64
	segIDBound   uint64
	spaces       map[uint32]*space
	segs         map[uint64]*segment
	active       [2]*segment               // by class
	spare        *segment                  // the next fresh one; see prepareSpare
	bad          map[disk.Address]struct{} // quarantine logged, not applied
	// spoilt are addresses with a quarantine's tombstone: those last, so
	// they are not shared even after the record is applied (rule shareguard).
	spoilt map[disk.Address]struct{}
	broken error         // a sync or a log write failed: no more writes
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
	resumeDue      time.Time // with resumeWait: when to try to write again
	resumeWait     time.Duration
	closing        atomic.Bool
	closeMu        ctxMutex
	closed         bool
	stopOnce       sync.Once
	stopped        chan struct{} // closed when nothing runs in the background
	stop           chan struct{}
	kickSync       chan struct{}
	kickApply      chan struct{}
	kickEvict      chan struct{}
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
	tenantID  uint32
	gpuDirect atomic.Bool // see NamespaceOptions.GPUDirect
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
	sp := &space{Namespace: n, tenantID: n.Number}
	for _, other := range s.spaces {
		if other.Tenant == n.Tenant {
			sp.tenantID = min(sp.tenantID, other.tenantID)
		}
	}
	s.spaces[n.Number] = sp
	return sp
}

// nextSeqLocked hands out put sequences. They are reserved durably in large
// steps, so that none is used twice whatever a crash takes (rules seqext,
// seqtomb, seqfloor).
func (s *Store) nextSeqLocked() (uint64, error) {
	if s.seqNext >= s.seqBound {
		first, bound, err := s.meta.ReserveSequences(sequenceStep)
		if err != nil {
			return 0, err
		}
		s.seqNext, s.seqBound = first, bound
	}
	s.seqNext++
	return s.seqNext - 1, nil
}

const (
	sequenceStep = 1 << 20
	segmentStep  = 64
)

func (s *Store) nextSegmentID() (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.segIDNext >= s.segIDBound {
		first, bound, err := s.meta.ReserveSegments(segmentStep)
		if err != nil {
			return 0, err
		}
		s.segIDNext, s.segIDBound = first, bound
	}
	s.segIDNext++
	return s.segIDNext - 1, nil
}
