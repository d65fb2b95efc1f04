// Package cli is the command line of sealstone: one file per command. The
// commands parse flags, call the libraries that do the work, and print.
//
// Each command writes what it found to standard output, everything about its
// own running (progress, errors) to standard error, and ends with one of the
// exit statuses in exit.go.
package cli
