// Package engine is the Sealstone store: it keeps KV-cache blocks on disk and
// gives them back only after their bytes were verified.
//
// A [Store] owns one directory. Blocks live in a [Namespace], which is a
// layout (everything that decides what a block's bytes mean) and a tenant.
// [Namespace.Put] stores blocks, [Namespace.Match] finds the longest stored
// prefix of a chain of block hashes and promises to keep it for a while,
// [Namespace.Get] reads blocks, planes of blocks or byte ranges into the
// caller's memory.
//
// Every block of every batch has a [Status] of its own. A block is reported
// OK only if each chunk that was asked for matched its sum, and the chain of
// sums ends in what the index holds for (namespace, block hash). On any other
// status the destination holds what it held before.
//
// All methods may be called from any goroutine. A context that ends makes a
// call return early; what that means for the operation is said at each call.
package engine
