package engine

import (
	"cmp"
	"slices"
)

// TenantUse is what a tenant has stored, and what its quota did.
type TenantUse struct {
	Tenant string
	// QuotaBytes bounds StoredBytes; 0 means no quota.
	QuotaBytes int64
	// StoredBytes and Blocks are those of all namespaces of the tenant; see
	// NamespaceUse.
	StoredBytes, Blocks int64
	// ShedBlocks were not stored because of the quota, TrimmedBlocks dropped to
	// make room under it. Both begin at Open.
	ShedBlocks, TrimmedBlocks int64
}

// NamespaceUse is what a namespace has stored.
type NamespaceUse struct {
	// Blocks counts keys, StoredBytes what they hold in segments: whole extents
	// with their headers and padding. An alias counts its own page only: the
	// bytes that several keys of a tenant share count once, in the namespace
	// with the lowest number. A put that is not applied yet counts as if it
	// shared nothing, and the bytes of a dropped block until the drop is applied.
	// Blocks has every put and drop that was answered, and puts under way. A block
	// that several drop at the same time may count as more than one less until
	// their drops are applied.
	Blocks, StoredBytes int64
	// Complete is false where the figures may not be those of the visible blocks:
	// in a namespace that has had a new epoch they hold blocks of older ones until
	// those are evicted; a store opened read-only leaves out what is in the log
	// alone; and of one that answers misses only nothing is visible.
	Complete bool
}

// SetQuota bounds what the namespaces of a tenant may hold in segments, from
// now on; 0 ends that. It is not kept over a reopen. A put that would pass the
// quota is shed. From 95 % of the quota on, the tenant's own oldest blocks are
// dropped in the background until it is at 90 %; leased ones stay. The quota
// may be set below what is stored.
//
// Errors: ErrInvalid (a negative quota), ErrClosed.
func (s *Store) SetQuota(tenant string, quotaBytes int64) error {
	if quotaBytes < 0 {
		return invalidf("quota of %d bytes for tenant %q is negative: 0 means none", quotaBytes, tenant)
	}
	if s.closing.Load() {
		return ErrClosed
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.accountLocked(tenant)
	a.quotaBytes, a.told = quotaBytes, false
	if a.excess() > 0 {
		kick(s.kickQuota)
	}
	return nil
}

// TenantUse tells what a tenant has stored. A tenant that is not known has
// nothing.
func (s *Store) TenantUse(tenant string) TenantUse {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accounts[tenant].use(tenant)
}

func (a *account) use(tenant string) TenantUse {
	if a == nil {
		return TenantUse{Tenant: tenant}
	}
	return TenantUse{
		Tenant: tenant, QuotaBytes: a.quotaBytes, StoredBytes: a.storedBytes(), Blocks: max(0, a.indexed.Blocks+a.held.Blocks),
		ShedBlocks: a.shed, TrimmedBlocks: a.trimmed,
	}
}

// Tenants lists all tenants that have a namespace or a quota, by name.
func (s *Store) Tenants() []TenantUse {
	s.mu.Lock()
	defer s.mu.Unlock()
	owners := map[string]bool{}
	for _, sp := range s.spaces {
		owners[sp.Tenant] = true
	}
	var out []TenantUse
	for tenant, a := range s.accounts {
		if owners[tenant] || a.quotaBytes > 0 {
			out = append(out, a.use(tenant))
		}
	}
	slices.SortFunc(out, func(a, b TenantUse) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return out
}

// Use tells what the namespace has stored. It asks no disk.
func (n *Namespace) Use() NamespaceUse {
	s := n.s
	healthy := s.health.get().State < HealthAllMiss
	s.mu.Lock()
	defer s.mu.Unlock()
	sp := s.spaces[n.info.Number]
	if sp == nil {
		return NamespaceUse{}
	}
	return NamespaceUse{
		Blocks: max(0, sp.indexed.Blocks+sp.held.Blocks), StoredBytes: sp.indexed.Bytes + sp.held.Bytes,
		Complete: healthy && !s.o.ReadOnly && sp.Floor == 0,
	}
}
