package engine

import (
	"context"
	"slices"
	"time"
)

// Stats are figures of a store at one moment. Totals only grow and begin at
// Open.
type Stats struct {
	// What is stored now.
	LiveBytes    int64 // extents that somebody refers to
	Segments     int
	SegmentBytes int64 // segments and sidecars, unlinked but open ones too
	IndexBytes   int64
	LogBytes     int64
	// DiskBytes is everything, DiskBytesMax the most seen so far.
	DiskBytes, DiskBytesMax int64
	CapacityBytes           int64

	// Puts.
	PutBlocks, PutBytes                int64 // stored: blocks, raw bytes
	PutExisted, PutDiffers, PutShared  int64
	PutStatus                          map[Status]int64
	WrittenBytes                       int64 // appended to segments, moves too
	MovedBlocks, MovedBytes            int64
	LogWrittenBytes, IndexWrittenBytes int64
	Syncs                              int64
	Unreachable                        int64 // puts whose parent is not stored
	// LookupsWithoutHit is how many calls of Match, Has, Touch or Get in a row
	// found nothing in the namespace for which that is the longest.
	LookupsWithoutHit                  int64
	Dropped, EvictedBlocks             int64
	EvictedSegments, CompactedSegments int64
	Quarantined, Unproven, Withdrawn   int64
	PendingRecords                     int
	PendingBytes                       int64
	DurablePosition, AppliedPosition   uint64
	LogEndPosition                     uint64
	InflightBytes, InflightBytesMax    int64 // of buffers; the limit
	CompressRawBytes                   int64 // of blocks that were put through a codec
	CompressStoredBytes                int64 // what they came to
	WritingBytes, WritingBytesMax      int64 // of puts, with the device; the most so far
	BufferBytes                        int64 // handed out by NewBuffer
	LentBytes, LentBytesMax            int64 // of InflightBytes, with callers by View; the limit
	CachedBufferBytes                  int64 // kept for the next put, get or move
	LeasedBytes, LeasesRefused         int64
	SubmitQueued                       int
	IndexErrors                        uint64
	Hint                               HintStats
	Host                               HostStats
	Scrub                              ScrubStats
	Rebuilds                           int
	OpenDuration                       time.Duration
	// OpenPhases are the parts of OpenDuration, in order.
	OpenPhases                 []OpenPhase
	MatchBlocks, MatchHits     int64
	GetStatus                  map[Status]int64
	VerifiedBytes, ServedBytes int64
	Rereads, RereadsSaved      int64
	// Fetches are the reads that batches of blocks were planned into, and
	// FetchedBytes what they read: headers, padding and gaps too. StraightBytes
	// were served without a copy. ReadAlone are blocks that no planned read
	// brought: of unknown layout, moved meanwhile, or not verified at first.
	Fetches, FetchedBytes    int64
	StraightBytes, ReadAlone int64
	// MemoryGone are blocks that were refused as the caller's guarded memory
	// went away under them. MemoryChanged are blocks that were served after
	// another read, as other bytes stood there when they were verified.
	MemoryGone, MemoryChanged int64
	// PathRead is the path of reads, PathReason why there is no direct I/O if
	// there is none. Paths are all that may be used, the preferred one first.
	PathRead, PathReason string
	Paths                []PathState
	PathsDemoted         int
	// HugePages is what buffers of puts and gets are made of: "thp", "hugetlb"
	// or "none"; HugePagesReason is why it is no better kind.
	HugePages, HugePagesReason string
	// ReadsInFlight are with the readers now. ReadBusy is the time during which
	// there were any, and ReadDepth the sum of the times of all: between two
	// moments the mean depth is the growth of ReadDepth over that of ReadBusy.
	ReadsInFlight       int
	ReadBusy, ReadDepth time.Duration
	// HostBounce and CuFile are the paths of GetToDevice, over all GPUs;
	// DevicePut are the blocks of PutFromDevice.
	HostBounce, CuFile DevicePathStats
	DevicePut          DevicePutStats
	// Probe is what was found out about the paths at Open; the caller's copy.
	Probe *ProbeReport
}

// WriteAmplification is the bytes written to segments, log and index for each
// byte of blocks put.
func (s Stats) WriteAmplification() float64 {
	if s.PutBytes == 0 {
		return 0
	}
	return float64(s.WrittenBytes+s.LogWrittenBytes+s.IndexWrittenBytes) / float64(s.PutBytes)
}

// statsTimeout bounds what Stats waits for the index.
const statsTimeout = 200 * time.Millisecond

// Stats gathers the figures. It waits at most 200 ms, for the index's.
func (s *Store) Stats() Stats {
	ctx, cancel := context.WithTimeout(context.Background(), statsTimeout)
	defer cancel()
	s.refreshIndexBytes(ctx)
	c := &s.count
	out := Stats{
		CapacityBytes: s.room.capacityBytes,
		PutBlocks:     c.putBlocks.Load(), PutBytes: c.putBytes.Load(),
		PutExisted: c.putExisted.Load(), PutDiffers: c.putDiffers.Load(), PutShared: c.putShared.Load(),
		PutStatus: map[Status]int64{}, GetStatus: map[Status]int64{},
		WrittenBytes: c.writtenBytes.Load(), MovedBlocks: c.movedBlocks.Load(), MovedBytes: c.movedBytes.Load(),
		LogWrittenBytes: c.logBytes.Load(), Syncs: c.syncs.Load(), Unreachable: c.unreachable.Load(),
		Dropped: c.dropped.Load(), EvictedBlocks: c.evictedBlocks.Load(), EvictedSegments: c.evictedSegments.Load(),
		CompactedSegments: c.compactedSegments.Load(),
		Quarantined:       c.quarantined.Load(), Unproven: c.unproven.Load(), Withdrawn: c.withdrawn.Load(),
		LeasedBytes: s.leases.heldBytes(s), LeasesRefused: c.leasesRefused.Load(), SubmitQueued: s.queue.length(),
		Rebuilds: s.rebuilds, OpenDuration: s.openTime, OpenPhases: slices.Clone(s.openClock.phases),
		MatchBlocks: c.matchAsked.Load(), MatchHits: c.matched.Load(),
		VerifiedBytes: c.verifiedBytes.Load(), ServedBytes: c.servedBytes.Load(),
		Rereads: c.rereads.Load(), RereadsSaved: c.rereadsSaved.Load(),
		Fetches: c.fetches.Load(), FetchedBytes: c.fetchedBytes.Load(),
		StraightBytes: c.straightBytes.Load(), ReadAlone: c.readAlone.Load(),
		MemoryGone: c.memoryGone.Load(), MemoryChanged: c.memoryChanged.Load(),
		CompressRawBytes: c.compressRaw.Load(), CompressStoredBytes: c.compressStored.Load(),
		LentBytes: s.lent.heldBytes.Load(), LentBytesMax: s.lent.maxBytes,
		BufferBytes: s.buffers.Load(), WritingBytes: s.gate.heldBytes.Load(), WritingBytesMax: s.gate.mostBytes.Load(),
	}
	for _, st := range Statuses() {
		if n := c.putStatus[st].Load(); n > 0 {
			out.PutStatus[st] = n
		}
		if n := c.getStatus[st].Load(); n > 0 {
			out.GetStatus[st] = n
		}
	}
	out.Scrub, out.Host = s.scrubStats(), s.hostStats()
	out.HostBounce, out.CuFile, out.DevicePut = c.bounce.stats(), c.direct.stats(), c.puts()
	s.fillMemory(&out)
	s.fillProtocol(&out)
	s.fillDisk(ctx, &out)
	return out
}

func (s *Store) fillMemory(out *Stats) {
	m := s.pool.Memory()
	out.InflightBytes, out.InflightBytesMax = m.InUseBytes, m.LimitBytes
	out.HugePages, out.HugePagesReason = string(m.Huge), m.HugeReason
	out.CachedBufferBytes = m.CachedBytes + s.movePool.Memory().CachedBytes + s.readerPool.Memory().CachedBytes
}

func (s *Store) fillProtocol(out *Stats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out.Segments = len(s.segs)
	out.LookupsWithoutHit = s.unansweredLocked()
	out.PendingRecords, out.PendingBytes = len(s.pending), s.pendingBytes
	out.DurablePosition, out.AppliedPosition = uint64(s.mark), uint64(s.applied)
	if s.log != nil {
		out.LogEndPosition = uint64(s.log.End())
	}
	if live := s.liveView.Load(); live != nil {
		for _, n := range *live {
			out.LiveBytes += n
		}
	}
}

func (s *Store) fillDisk(ctx context.Context, out *Stats) {
	out.SegmentBytes = s.vol.AllocatedBytes()
	out.LogBytes = s.logBytes()
	out.IndexBytes = s.indexDiskBytes.Load()
	out.DiskBytes = s.noteDiskBytes()
	out.DiskBytesMax = s.count.diskBytesMax.Load()
	i := s.idx.Stats(ctx)
	if s.hint != nil {
		out.Hint = s.hint.stats()
	}
	out.IndexWrittenBytes, out.IndexErrors = i.WrittenBytes, i.BackgroundErrors
	out.PathRead, out.Paths = s.paths.use().name, s.paths.states()
	for _, p := range out.Paths {
		if p.Demoted != "" {
			out.PathsDemoted++
		}
	}
	out.ReadsInFlight, out.ReadBusy, out.ReadDepth = s.paths.meter.read()
	out.PathReason = s.vol.DirectRefusal()
	out.Probe = s.ProbeReport()
}

// refreshIndexBytes asks the index how large it is; makeRoom counts with it.
func (s *Store) refreshIndexBytes(ctx context.Context) {
	if n := s.idx.Stats(ctx).DiskBytes; n > 0 {
		s.indexDiskBytes.Store(n)
	}
}

// noteDiskBytes sums up what the store holds on disk and keeps the maximum.
func (s *Store) noteDiskBytes() int64 {
	n := s.vol.AllocatedBytes() + s.indexDiskBytes.Load() + s.count.evidenceBytes.Load() + metaReserve + s.logBytes()
	storeMax(&s.count.diskBytesMax, n)
	return n
}

// logBytes is what the files of the log hold.
func (s *Store) logBytes() int64 {
	s.mu.Lock()
	log := s.log
	s.mu.Unlock()
	if log == nil { // of a store opened read-only
		return 0
	}
	return log.Stats().AllocatedBytes
}
