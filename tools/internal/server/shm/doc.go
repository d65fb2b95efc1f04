// Package shm is the memory that peers on the same host share with the server:
// puts are copied out of it, and a device writes gets right into it.
//
// A peer passes the descriptor of a memfd, or of a file on a tmpfs such as
// /dev/shm, and the server maps it. The peer goes on owning the file: it may
// write to it at any time, cut it short, or end. So the mapping is registered
// with the store as guarded memory (engine.MemoryOptions), sealed or not; the
// worst that a peer can do to itself is a block that is Invalid or read twice,
// and to others nothing.
//
// Nothing of a peer's is trusted beyond that: what kind of file it is, who owns
// it, its size, how many there are, and that each span lies within its region.
package shm
