// Package diskuse measures, from outside, how many disk bytes a directory
// holds: the blocks allocated to its files and directories, and those of
// files that were unlinked but are still open in a process.
//
// It never asks the store whose directory it is: it is how the store's own
// account is checked.
package diskuse
