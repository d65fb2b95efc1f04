// Package driver calls libcuda and libcufile, both found at run time.
//
// Neither library is linked: a machine without a GPU has none, and a host
// process must not fail to start for the lack of it. [Open] loads them with
// dlopen, resolves each function once by its exact name, and never unloads
// them, as both leave threads behind. A function that an installed version
// lacks is [ErrMissingSymbol] when it is called, and costs nothing before.
//
// The package has no policy: no pools, no retries, no fallback. What it adds to
// the C functions are errors that say what happened and what to do ([Error]),
// and two rules that callers could not keep from Go:
//
//   - CUDA keeps the current context per system thread, and a goroutine moves
//     between threads whenever it likes. So each method of [Context] pushes its
//     context, operates and pops it within one call into C. The context that the
//     host application had set on that thread is left as it was found.
//   - cuFile reports failures of a read through errno, which belongs to the thread
//     as well. It is read before the call returns to Go.
//
// Memory given to asynchronous copies and to [Context.HostRegister] must not be
// Go's: the device reads and writes it after the call returned. Use mmap.
//
// Without cgo, and on systems other than Linux, the same names exist and Open
// returns [ErrUnavailable].
//
// Signatures, layouts and codes follow NVIDIA's cuda.h and cufile.h of CUDA 11.4
// to 13.4, the CUDA Driver API documentation and the cuFile API Reference Guide.
package driver
