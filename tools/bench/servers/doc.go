// Command servers measures sealstone serve beside redis-server and memcached,
// with and without its disk tier (extstore). It starts each with a directory of
// its own on loopback, and does the same work with the same client: connections
// that set and get values one after the other, in a shuffled order, and look at
// each that comes back. Rounds of the servers alternate.
//
// In memory means that each holds all values there: Sealstone has a host cache
// (and the disk behind it), redis no persistence. Cold means that each has a
// little memory, and every value is read from the disk once after the files
// were dropped from the page cache.
//
// Processor time is that of the server alone, from /proc.
//
//	go run ./servers --sealstone ../../bin/sealstone --dir /mnt/nvme --json servers.json
package main
