// Package core is what stands behind the C ABI: stores, namespaces, regions and
// leases as numbers, a bounded queue of operations whose completions wait to be
// drained, and the two kinds of stores, embedded and behind a server. It knows
// nothing of C but memory: the functions that C calls are one folder up.
package core
