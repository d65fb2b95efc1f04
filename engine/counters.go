package engine

import "sync/atomic"

// counters are the store's running totals. They only grow.
type counters struct {
	putBlocks, putBytes      atomic.Int64 // stored by a put of ours
	putExisted, putDiffers   atomic.Int64
	putShared                atomic.Int64
	compressRaw              atomic.Int64 // of blocks that were tried
	compressStored           atomic.Int64 // what they came to
	writtenBytes, movedBytes atomic.Int64 // appended to segments; of these by moves
	movedBlocks              atomic.Int64
	logBytes                 atomic.Int64
	verifiedBytes            atomic.Int64
	servedBytes              atomic.Int64
	rereads, rereadsSaved    atomic.Int64
	evictedBlocks            atomic.Int64
	evictedSegments          atomic.Int64
	compactedSegments        atomic.Int64
	dropped                  atomic.Int64
	fetches, fetchedBytes    atomic.Int64 // planned reads
	straightBytes            atomic.Int64 // served without a copy
	readAlone                atomic.Int64 // blocks that no planned read brought
	hostServed, hostVerified atomic.Int64 // from the cache in memory
	memoryGone               atomic.Int64 // blocks whose caller's memory went away
	memoryChanged            atomic.Int64 // blocks read again because of it
	quarantined              atomic.Int64
	unproven                 atomic.Int64
	withdrawn                atomic.Int64
	matched, matchAsked      atomic.Int64
	unreachable              atomic.Int64 // puts whose parent is not stored
	syncs                    atomic.Int64
	evidenceBytes            atomic.Int64
	putStatus, getStatus     [statusCount]atomic.Int64
	diskBytesMax             atomic.Int64
	leasesRefused            atomic.Int64
	deviceCounters
}

func (c *counters) put(s Status) { c.putStatus[s].Add(1) }
func (c *counters) get(s Status) { c.getStatus[s].Add(1) }

func storeMax(a *atomic.Int64, v int64) {
	for {
		old := a.Load()
		if v <= old || a.CompareAndSwap(old, v) {
			return
		}
	}
}
