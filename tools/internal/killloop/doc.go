// Package killloop kills a process that uses a store, over and over, and holds
// what is found afterwards against what the process was promised.
//
// A child opens the store in a directory of a real file system, puts, gets,
// drops, evicts and swaps epochs, and says on a pipe what it is about to ask
// and what was answered. The parent kills it with SIGKILL, mostly at a random
// moment, else in Open, in Close or in an eviction, and lets another child
// open what is left, or opens it itself to look at every key. What stands in
// the pipe when the child dies still counts: an answer is written there only
// after the store gave it.
package killloop
