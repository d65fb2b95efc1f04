// Package daemon runs a cache server: it opens a store, listens, serves, tells
// the service manager, and stops in order. The command line is package cli's,
// the protocol package server's, the page package web's.
package daemon
