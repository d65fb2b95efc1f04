// Command libsealstone is the C ABI of Sealstone, built as a shared library
// (make lib). sealstone.h is the interface, written by hand and said call by
// call; docs/client-c.md is the page about it.
//
// Each call comes in three parts. A C function of sealstone.c is what is
// exported: it answers in a child of fork, where the Go runtime is dead, and
// else calls the Go function of the same name in the exports_*.go files. Those
// turn C memory into values, catch panics, and leave the rest to
// internal/core.
package main

// main is not called in a shared library.
func main() {}
