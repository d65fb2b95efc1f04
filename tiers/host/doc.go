// Package host is a bounded cache of verified blocks in memory, before the
// disk.
//
// A block is raw bytes by plane, with the sums of its chunks and its content
// id: it is verified again whenever it is served, as memory is no better than
// a disk. It is bound to a version, what the index held when it came in: asked
// for by another one it is a miss, so that the index decides what exists.
//
// Memory is not of the Go heap. A block that is evicted or removed while
// somebody reads it stays until the last reader releases it, and counts until
// then: all that the cache holds, with rounding and what it takes to find
// blocks, is within the bound at every moment. Which block goes is S3-FIFO's
// choice.
package host
