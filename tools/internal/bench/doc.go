// Package bench measures what a store does per second and what that costs in
// processor time, for three workloads:
//
//   - offload puts new blocks, as an engine does that evicts from its GPU;
//   - onboard gets them back, in another order than they were put;
//   - match looks up chains of which all blocks are stored.
//
// Every block has bytes of its own, so that neither the store's sharing of
// equal content nor a compressing device makes the figures better than they
// are. Figures are medians over rounds.
package bench
