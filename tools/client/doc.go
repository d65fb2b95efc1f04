// Package client is the Go client of sealstone serve: the calls of package
// engine, answered by a server of the same host or network.
//
// A [Namespace] has the methods of engine.Namespace and takes and returns its
// types, one result for each block. Bytes travel inside the messages, or, over
// a Unix socket, not at all: memory that was registered as a [Region] is shared
// with the server, which puts from it and lets its device write into it.
//
// No call outlasts its context, but for those that share memory: they return
// when the server has let go of it, since until then it may be read or written.
// See [Options.LingerMax].
package client
