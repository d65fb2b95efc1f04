// Package access says who a peer of the server is and what it may do: tokens
// from a file, each bound to a tenant and to rights, and the disk quotas of
// tenants. The file carries no secrets, only their SHA-256.
//
//	# Disk quotas; a tenant without a table of its own has none.
//	[tenant.team-a]
//	disk-quota = "200GiB"
//
//	[[token]]
//	name   = "engine-1"
//	tenant = "team-a"
//	rights = ["read", "write"]
//	sha256 = "5e88…"
//
// A secret should be one that New made: SHA-256 is no password hash, so a
// secret that can be guessed can be found from the file.
package access
