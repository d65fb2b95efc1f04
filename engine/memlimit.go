package engine

import (
	"github.com/sealstone/sealstone/internal/hostinfo"
)

const (
	// memoryShare: all memory budgets of a store together take at most this
	// part of what its control group may use, as far as defaults go. The rest
	// is the host's: the inference engine, the page cache.
	memoryShare = 4
	// hostShare: the cache of blocks in memory is as large as it was asked for,
	// but with all other budgets takes at most this part of the limit.
	hostShare = 2
	// memoryCapacityShare: a store whose files are kept in memory takes at
	// most this part of the same limit, as files count against it.
	memoryCapacityShare = 2

	minInflight   = 8 << 20
	minIndexCache = 16 << 20
	minMemTable   = 1 << 20
	// memTablesShare: that many tables must fit the index' cache, which gives
	// up room for them.
	memTablesShare = 4
	scanBytes      = 8 << 20 // pieces of segments read at Open and by scans
)

// memoryLimit is the memory limit of the process' control group, or 0.
func (o *Options) memoryLimit() int64 {
	if o.private.memoryLimit != 0 {
		return max(o.private.memoryLimit, 0)
	}
	m, ok := hostinfo.ReadCgroupMemory()
	if !ok {
		return 0
	}
	return m.LimitBytes
}

// fitMemory chooses the memory budgets that are not given: the usual ones, or
// less under a limit. MaxBlockBytes is set.
func (o *Options) fitMemory(limitBytes int64) {
	inflight, cache, hint := int64(defaultMaxInflight), int64(defaultIndexCache), int64(defaultHintBytes)
	if limitBytes > 0 {
		left := limitBytes/memoryShare - o.fixedMemory()
		cache = clamp(left/4, minIndexCache, cache)
		if cache < defaultIndexCache {
			hint = -1 // the cache has more use for the little there is
		}
		inflight = clamp(left-cache-max(hint, 0), minInflight, inflight)
	}
	orDefault(&o.MaxInflightBytes, inflight)
	o.MaxInflightBytes = max(o.MaxInflightBytes, 4*o.MaxBlockBytes)
	orDefault(&o.IndexCacheBytes, cache)
	orDefault(&o.HintBytes, hint)
	if limitBytes > 0 {
		o.HostCacheBytes = clamp(limitBytes/hostShare-o.memoryBudget(), 0, o.HostCacheBytes)
	}
	if o.private.memTableBytes == 0 && o.IndexCacheBytes < defaultIndexCache {
		o.private.memTableBytes = max(o.IndexCacheBytes/memTablesShare, minMemTable)
	}
}

// fixedMemory are the budgets that follow from MaxBlockBytes alone.
func (o *Options) fixedMemory() int64 {
	return o.readerPoolBytes() + o.movePoolBytes() + scanBytes
}

// readerPoolBytes is what the readers' own bounce buffers may take: a few of
// the largest reads.
func (o *Options) readerPoolBytes() int64 { return max(64*mib, 4*o.MaxBlockBytes) }

// movePoolBytes: two extents with padding, rounded up by an eighth.
func (o *Options) movePoolBytes() int64 { return 3*o.MaxBlockBytes + 8*mib }

// memoryBudget is what the budgets allow together, but for the cache of blocks
// in memory: that is no default.
func (o *Options) memoryBudget() int64 {
	return o.fixedMemory() + o.MaxInflightBytes + o.IndexCacheBytes + max(o.HintBytes, 0)
}

// tellMemory warns where the budgets take more of a limit than their share.
func (s *Store) tellMemory() {
	if asked, got := s.hostAskedBytes, s.o.HostCacheBytes; got < asked {
		s.event(EventProbe, "warning: the cache in memory has %d of the %d bytes asked for: with the other budgets it takes at most 1/%d of the %d bytes that the control group allows (HostCacheBytes)", got, asked, hostShare, s.o.memoryLimit())
	}
	limit, budget := s.o.memoryLimit(), s.o.memoryBudget()
	if limit > 0 && budget > limit/memoryShare {
		s.event(EventProbe, "warning: the memory budgets may take %d of the %d bytes that the control group allows, more than 1/%d: lower MaxBlockBytes (%d), MaxInflightBytes (%d) or IndexCacheBytes (%d), or raise the limit",
			budget, limit, memoryShare, s.o.MaxBlockBytes, s.o.MaxInflightBytes, s.o.IndexCacheBytes)
	}
}

// capacityLimit is the most that a store in this directory takes by default:
// where files are kept in memory they count against the limit. 0 is no limit.
func (s *Store) capacityLimit() int64 {
	if s.o.private.fs != nil && !s.o.private.inMemory {
		return 0
	}
	if !s.o.private.inMemory {
		f, err := hostinfo.FilesystemAt(s.dir)
		if err != nil || !f.Memory {
			return 0
		}
	}
	return s.o.memoryLimit() / memoryCapacityShare
}
