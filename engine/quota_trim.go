package engine

import (
	"context"
	"slices"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/tiers/disk"
)

// trimPause is how long trimming rests after a pass that could drop nothing: a
// tenant whose blocks are all leased is not worth a look at each put.
const trimPause = time.Second

// quotaLoop keeps tenants below their quotas.
func (s *Store) quotaLoop() {
	defer s.workers.Done()
	for {
		select {
		case <-s.stop:
			return
		case <-s.kickQuota:
		}
		if s.trimTenants(s.life) {
			continue
		}
		select {
		case <-s.stop:
			return
		case <-time.After(trimPause):
		}
	}
}

// trimTenants drops the oldest blocks of each tenant that is over. It reports
// whether all could be brought below their target.
func (s *Store) trimTenants(ctx context.Context) (all bool) {
	all = true
	for _, tenant := range s.overQuota() {
		s.tellQuota(tenant)
		all = s.trimTenant(ctx, tenant) && all
	}
	return all
}

func (s *Store) overQuota() (tenants []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tenant, a := range s.accounts {
		if a.excess() > 0 {
			tenants = append(tenants, tenant)
		}
	}
	slices.Sort(tenants)
	return tenants
}

// tellQuota says once an episode that a tenant is trimmed.
func (s *Store) tellQuota(tenant string) {
	s.mu.Lock()
	a := s.accounts[tenant]
	told, quota, stored := a.told, a.quotaBytes, a.storedBytes()
	a.told = true
	s.mu.Unlock()
	if !told {
		s.event(EventQuota, "tenant %q stores %d of its %d bytes: its oldest blocks are dropped down to %d %%", tenant, stored, quota, trimTo)
	}
}

// trimTenant drops blocks of a tenant, in the order of the segments that they are at
// home in, until it is at its target.
func (s *Store) trimTenant(ctx context.Context, tenant string) (done bool) {
	defer s.wantMet(tenant)
	// What is put and not applied yet is not to be found by segment.
	if s.writable() != nil || s.settleFor(ctx) != nil {
		return false
	}
	infos := s.vol.Segments()
	slices.SortFunc(infos, func(a, b disk.SegmentInfo) int { return int(a.ID) - int(b.ID) })
	s.mu.Lock()
	from := s.accounts[tenant].trimmedUpTo
	s.mu.Unlock()
	for _, i := range infos {
		for i.ID >= from {
			left := s.aboveTarget(tenant)
			if left == 0 {
				return true
			}
			batch, err := s.trimBatch(ctx, tenant, i.ID, left)
			if err != nil || ctx.Err() != nil || s.closing.Load() {
				return false
			}
			if len(batch) == 0 {
				s.trimmedUpTo(tenant, i)
				break
			}
			if !s.dropTrimmed(ctx, tenant, i.ID, batch) {
				return false
			}
		}
	}
	s.trimmedUpTo(tenant, disk.SegmentInfo{}) // leases end: next time from the beginning
	return s.aboveTarget(tenant) == 0
}

// trimmedUpTo notes that a segment holds nothing more to drop.
func (s *Store) trimmedUpTo(tenant string, i disk.SegmentInfo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch a := s.accounts[tenant]; {
	case i.ID == 0:
		a.trimmedUpTo = 0
	case i.Sealed && a.trimmedUpTo <= i.ID:
		a.trimmedUpTo = i.ID + 1
	}
}

func (s *Store) aboveTarget(tenant string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accounts[tenant]
	if a.quotaBytes == 0 {
		return 0
	}
	return a.aboveTarget()
}

// wantMet forgets what puts were shed for: whoever is shed from now on says so
// again.
func (s *Store) wantMet(tenant string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts[tenant].wantedBytes = 0
}

// trimBatch is the oldest blocks of a tenant at home in a segment that make up
// some bytes together. Leased ones stay.
func (s *Store) trimBatch(ctx context.Context, tenant string, segment uint64, bytes int64) (batch []index.KeyEntry, err error) {
	keys, err := s.segmentKeys(ctx, segment)
	if err != nil {
		return nil, err
	}
	now := s.o.private.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range keys {
		sp := s.spaces[k.Namespace]
		if sp == nil || sp.Tenant != tenant || k.Home().Address.Segment != segment || s.leases.holds(k.Key, now, s.o.LeaseDuration) {
			continue
		}
		batch = append(batch, k)
		if bytes -= k.Home().Bytes(); bytes <= 0 || len(batch) == dropBatchMax {
			break
		}
	}
	return batch, nil
}

// dropTrimmed drops blocks as a caller's drop does: the tombstones first, then
// the records, durable and applied.
func (s *Store) dropTrimmed(ctx context.Context, tenant string, segment uint64, batch []index.KeyEntry) bool {
	d := &dropping{s: s}
	if err := d.drop(segment, batch); err != nil {
		return false
	}
	if s.settleFor(ctx) != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts[tenant].trimmed += int64(len(batch))
	return true
}
