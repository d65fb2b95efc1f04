// Package server shares a store with the engines of a host: it answers Redis
// commands on plain keys, and the KV.* commands on blocks of a layout, over
// TCP, TLS and Unix sockets. docs/server/protocol.md has all commands.
//
// A connection is one goroutine, which reads a command, does it and answers it
// before the next: answers are in order and nothing of a connection is done
// twice at a time. What is read ahead is bounded, so a client that sends
// faster than its commands are done is held up by its own socket. Answers are
// written when the input is used up, or when enough have gathered.
//
// Values go from the socket into memory outside the Go heap, which the store
// copies and sums in one pass; blocks are written to the socket from the
// memory of the store in which they were verified.
package server
