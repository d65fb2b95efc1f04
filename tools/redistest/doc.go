// Package redistest holds tests of the server by a client library that knows
// nothing of it. It is a module of its own, so that the library is no
// dependency of the program.
package redistest
