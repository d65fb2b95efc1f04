// Command cachepolicy replays traces through policies of a cache in memory:
// Sealstone's own S3-FIFO, W-TinyLFU as of otter, and LRU. It stands in the
// module of the comparisons, so that otter reaches nobody who uses Sealstone.
//
// Each block that a request refers to is asked for, in order; one that is not
// there is added. With --scan a part of that many more references, to blocks
// that never come back, is strewn in. With --mixed blocks are of 64 KiB to
// 4 MiB by their id, else all of 1 MiB. Sizes of the cache are parts of what all
// distinct blocks of the trace take.
//
//	go run ./cachepolicy conversation_trace.jsonl synthetic_trace.jsonl weka-agentic
package main
