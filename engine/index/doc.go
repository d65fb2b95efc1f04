// Package index keeps what the store knows about its blocks in Pebble: where
// each key's extent lies, who refers to an extent, where content of a tenant
// lies, how much of each segment is live, and up to which log position all of
// that is true.
//
// It is the only package that imports Pebble, and it fences it: the process
// does not end when Pebble gives up (its Fatalf marks the index failed and
// parks that goroutine), and no caller waits for Pebble longer than its
// context allows. The index decides nothing about the protocol; the engine's
// applier does, through [Batch].
package index
