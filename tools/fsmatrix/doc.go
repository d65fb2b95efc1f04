// Package fsmatrix runs the store on real file systems, under the limits that
// containers set, and on FUSE file systems that stall, fail and lie. It holds
// tests only, and is a module of its own so that what they need is not handed
// to users of the store.
//
// The tests mount file systems and so need root; each skips, with its reason,
// where something is missing. `make fsmatrix` runs them.
package fsmatrix
