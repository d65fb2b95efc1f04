// Package bench measures what a store does per second and what that costs in
// processor time, beside fio on the same file system where that is asked for.
// The workloads:
//
//   - offload puts new blocks, as an engine does that evicts from its GPU;
//   - onboard gets them back, cold and in a shuffled order;
//   - mixed makes seven calls of gets for three of puts;
//   - match looks up chains of a thousand hashes that are all stored;
//   - ranges gets an eighth of the planes of each block, as an engine does
//     that loads layer by layer.
//
// # What is measured
//
// Every 4 KiB page of every block has bytes of its own: a stamp of the block
// and the offset over a base of random bytes. So neither the store's sharing
// of equal content nor a device that removes duplicates by the page or more
// finds two equal ones, and none that compresses finds anything to save. (A
// device that looked for equal bytes at less than a page would.) fio does the
// same to its buffers.
//
// Rounds of the store and of fio alternate, so that what else goes on on the
// machine touches both. Figures are medians over rounds; the ratio is the
// median of the ratios of each round. Processor time is that of the process
// less what the stamps cost, which is reported apart.
//
// Reads are cold: before every round the page cache of all files is dropped.
package bench
