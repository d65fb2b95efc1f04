// Package canary finds out whether files of a directory can be read straight
// into the memory of a GPU: by doing it, in a child process with a deadline,
// with a fresh file of random bytes, and by looking at every byte around the
// destination afterwards.
//
// What the libraries say about the path is no proof: cuFile reports success
// for reads that went through host memory (its compatibility mode), and a
// fabric may drop what a device writes to its peer while the writer sees
// success. So the bytes are verified in the memory of the GPU that owns it, by
// its own kernel where that is proven, and by a copy back; and the counters of
// the library must show the direct route.
//
// A verdict holds for one GPU and one directory, never for a host: of eight
// GPUs one may be behind a broken path. It holds while everything that it
// depends on stays the same, see [gpu.VerdictKey]. In a virtual machine
// nothing is tried unless the operator allows that very pair, for there the
// trial itself may write to memory that is not its own.
package canary
