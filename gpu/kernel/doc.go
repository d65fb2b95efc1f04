// Package kernel verifies chunk sums in the memory of a GPU.
//
// The kernel is XXH64 with seed 0, the chunk sum of package sums, over many
// pieces in one launch. KV blocks lie scattered over device memory, so it
// takes a table of pieces and not one range. Its source is verify.cu; what a
// driver loads is verify.ptx, which generate.sh makes of it.
//
// # Two entry points
//
// Both take one by-value parameter, the struct below, and are launched one
// after the other on the same stream with blocks of [ThreadsPerBlock] threads.
// A thread's number is blockIdx.x*blockDim.x + threadIdx.x. It shares nothing
// with other threads: no shuffle, no shared memory, no barrier, so the test on
// the CPU is a loop over the numbers. Threads beyond the last piece do nothing.
//
//   - kv_xxh64_lanes: thread t takes lane t%4 of piece t/4 and writes
//     accumulators[t]. A piece below 32 bytes leaves the start values there.
//   - kv_xxh64_finish: thread p merges the four accumulators of piece p, takes
//     in what is left of it (its last length%32 bytes) and writes got[p], then
//     status[p].
//
// # Parameter struct
//
// [ParamBytes] bytes, little endian, aligned to 8; addresses are of device
// memory:
//
//	offset  size  field
//	     0     8  pieces        address of the table, aligned to 8
//	     8     8  accumulators  address of 4 x count u64, aligned to 8
//	    16     8  got           address of count u64, aligned to 8
//	    24     8  status        address of count u32, aligned to 4
//	    32     4  count         number of pieces
//	    36     4  reserved      0
//
// # Table of pieces
//
// [PieceBytes] bytes each, little endian, aligned to 8:
//
//	offset  size  field
//	     0     8  address   of the first byte in device memory, any alignment
//	     8     4  length    in bytes; 0 gives the sum of nothing
//	    12     4  reserved  0
//	    16     8  want      the wanted XXH64
//
// The kernel reads only bytes of the pieces. Those at an address that is a
// multiple of 8 are read by words, others byte by byte, which is slower.
//
// # Results
//
// got[p] is the sum that was computed, status[p] is [StatusMatch] (1) where it
// equals want and [StatusMismatch] (2) where not. The host fills both arrays
// with zeros before the launch and accepts a piece only with status 1 and a
// got that equals its own copy of want: a launch that did not run leaves 0,
// and one that answers without reading leaves a wrong sum.
package kernel
