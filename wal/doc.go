// Package wal is a write-ahead log of opaque records in groups.
//
// A group is written by one [Log.Append] and is found again whole or not at
// all. Positions are [LSN]s: byte positions that only grow, over files and
// over restarts. [Log.Append] ends in the page cache (it survives the
// process, not the power); [Log.Sync] makes everything before it durable.
//
// A log is never appended to after its process has gone. Whoever opens a
// directory calls [Recover], which reads and changes nothing, then [Create],
// which starts a new log behind all files found, and, once nothing of the old
// files is needed any more, [Log.RemoveOthers].
//
// Every group ends in a commit frame that carries a sum chained over all
// groups of the file and the position up to which the writer knew the log to
// be durable. So Recover can tell a torn tail (normal after a crash) from rot
// (bytes that were durable and are bad now): see docs/format/wal.md.
//
// The package starts no goroutines. Calls last as long as the file system
// takes: Append waits for a running Sync only when it changes to a new file.
package wal
