// Package demo shows the promises of a store being kept: a workload with the
// owner killed in the middle of a put, and then closed stores that are damaged
// from outside, each in a way that a disk, a file system or a hand can do it.
//
// Every block that a store returns is compared, byte by byte, with content
// that does not come from the store. A promise is held only if each damaged
// block ended as a miss with a reason and each other block came back right.
package demo
