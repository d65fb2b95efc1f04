// Command bench measures Sealstone beside what a Go program would use
// instead: a file per block (through the page cache, and past it), Badger,
// Pebble (values inline, and in blob files), and bbolt. It is a module of its
// own, so that none of them reaches who uses Sealstone. It runs on Linux.
//
// All do the same work: the same blocks with bytes of their own, in calls of a
// batch, two calls at a time, under hashes as keys. A round of one store is
// three processes, each with a cold page cache. The first puts all blocks,
// makes them durable, and is killed. The second opens what is left, gets one
// block and closes. The third opens it again and gets every block in a shuffled
// order into the same kind of memory. So each figure of memory and processor
// time is of one store alone. Rounds of the stores alternate, in an order that
// turns.
//
//	go run . --dir /mnt/nvme --bytes 2GiB --block-size 1MiB --json side.json
package main
