package engine

import (
	"fmt"

	"github.com/sealstone/sealstone/engine/index"
)

// Shares of a quota, in hundredths: from trimFrom on the tenant's oldest
// blocks are dropped until it is at trimTo. Under toldUntil an episode is over,
// and the next one is told again.
const (
	trimFrom  = 95
	trimTo    = 90
	toldUntil = 80
)

func shareOf(bytes int64, hundredths int64) int64 {
	return bytes/100*hundredths + bytes%100*hundredths/100
}

// account is what a tenant may store and has stored. Guarded by Store.mu.
type account struct {
	quotaBytes int64
	// indexed is what the index holds of all namespaces, as of the last record
	// applied; held is charged for puts that are under way, and for puts and
	// drops that are not applied. What a put adds to the index is never more than
	// what it was charged.
	indexed index.Use
	held    index.Use
	shed    int64
	trimmed int64
	// wanted is the largest block that was shed since the last trim: that is
	// room to be made too.
	wantedBytes int64
	told        bool
	// trimmedUpTo is the first segment that may hold blocks that were not looked
	// at: the blocks of a segment that is sealed only become fewer.
	trimmedUpTo uint64
}

func (a *account) storedBytes() int64 { return a.indexed.Bytes + a.held.Bytes }

// excess is how much is to be dropped, from trimFrom on or for a put that was
// shed.
func (a *account) excess() int64 {
	if a.quotaBytes == 0 {
		return 0
	}
	if a.storedBytes() < shareOf(a.quotaBytes, trimFrom) && a.storedBytes()+a.wantedBytes <= a.quotaBytes {
		return 0
	}
	return a.aboveTarget()
}

// aboveTarget is how much is stored beyond where trimming ends.
func (a *account) aboveTarget() int64 {
	return max(0, a.storedBytes()-min(shareOf(a.quotaBytes, trimTo), a.quotaBytes-a.wantedBytes))
}

// accountLocked is that of a tenant, made when it is first asked for.
func (s *Store) accountLocked(tenant string) *account {
	a := s.accounts[tenant]
	if a == nil {
		a = &account{}
		s.accounts[tenant] = a
	}
	return a
}

// takeUsesLocked takes over what the index holds. It comes with the release of
// what the records just applied were charged, in one critical section: nothing
// counts twice, or not at all.
func (s *Store) takeUsesLocked(uses map[uint32]index.Use) {
	for _, a := range s.accounts {
		a.indexed = index.Use{}
	}
	for number, sp := range s.spaces {
		sp.indexed = uses[number]
		sp.account.indexed.Blocks += sp.indexed.Blocks
		sp.account.indexed.Bytes += sp.indexed.Bytes
	}
	for _, a := range s.accounts {
		if a.storedBytes() < shareOf(a.quotaBytes, toldUntil) {
			a.told = false
		}
	}
}

// charge is what a put under way, or a record not yet applied, counts for: a
// put one block and its bytes, a drop one block less. The bytes of a dropped
// block are there until the drop is applied.
type charge struct {
	sp            *space // nil: nothing
	blocks, bytes int64
}

func (c *charge) releaseLocked() {
	if c.sp == nil {
		return
	}
	c.addLocked(-1)
	*c = charge{}
}

func (c *charge) addLocked(times int64) {
	for _, held := range []*index.Use{&c.sp.held, &c.sp.account.held} {
		held.Blocks += times * c.blocks
		held.Bytes += times * c.bytes
	}
}

// chargeDropLocked counts a drop that is about to enter the overlay, if it
// takes a block that is counted: one that the overlay already hides, or that
// was put anew since, is not. A drop that was looked up before another of the
// same block was applied is counted too: the index has the last word.
func (s *Store) chargeDropLocked(r *record) {
	sp := s.spaces[r.Key.Namespace]
	v := s.overlay.look(r.Key)
	if sp == nil || v.found && v.entry.Seq != r.Entry.Seq || !v.found && v.dropSeq >= r.Entry.Seq {
		return
	}
	r.charge = charge{sp: sp, blocks: -1}
	r.charge.addLocked(1)
}

// chargeLocked counts a put of some bytes, in place of what it was charged
// before, or says why the tenant may not store it.
func (s *Store) chargeLocked(c *charge, sp *space, bytes int64) error {
	c.releaseLocked()
	a := sp.account
	if a.quotaBytes > 0 && bytes > a.quotaBytes-a.storedBytes() {
		a.shed++
		if bytes > a.quotaBytes {
			return fmt.Errorf("%w: tenant %q has a quota of %d bytes, the block takes %d by itself", ErrShed, sp.Tenant, a.quotaBytes, bytes)
		}
		a.wantedBytes = max(a.wantedBytes, bytes)
		kick(s.kickQuota)
		return fmt.Errorf("%w: tenant %q has a quota of %d bytes and stores %d: %d more do not fit; its oldest blocks are being dropped", ErrShed, sp.Tenant, a.quotaBytes, a.storedBytes(), bytes)
	}
	*c = charge{sp, 1, bytes}
	c.addLocked(1)
	if a.excess() > 0 {
		kick(s.kickQuota)
	}
	return nil
}

// withinQuota charges the tenant for blocks that are about to be written, and
// decides those that it may not store. A block that shares bytes is charged
// for them too: by the time it is applied nobody else may refer to them.
func (p *putBatch) withinQuota(items []*putItem) []*putItem {
	s := p.s
	errs := make([]error, len(items))
	s.mu.Lock()
	sp := s.spaces[p.n.info.Number]
	for i, it := range items {
		bytes := imageBytes(items[i : i+1])
		if it.target != nil {
			bytes += it.target.Bytes()
		}
		errs[i] = s.chargeLocked(&it.charge, sp, bytes)
	}
	s.mu.Unlock()
	kept := items[:0:0]
	for i, it := range items {
		if errs[i] != nil {
			s.endGuest(&it.shared)
			p.fail(it, StatusShed, "", errs[i])
			continue
		}
		kept = append(kept, it)
	}
	return kept
}

// uncharge gives back what a put that came to nothing was charged.
func (p *putBatch) uncharge(it *putItem) {
	if it.charge.sp == nil {
		return
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	it.charge.releaseLocked()
}
