// Package resp reads commands of the Redis protocol and writes answers to
// them, in its versions 2 and 3.
//
// It exists because of megabytes. A server of KV-cache blocks needs four
// things of its codec that those of the well-kept RESP servers do not give:
// redcon, for one, gathers whole commands in a heap buffer that grows with
// them, copies a value before it is handed on, reads ahead as much as a client
// sends and writes answers from one contiguous buffer.
//
//   - A value goes from the socket straight into memory of a [Memory] that all
//     connections share, and that has a bound. Where it has no room the value
//     is read and forgotten: the command arrives without it, see [Lost].
//   - An answer is written from memory that is lent ([Writer.Lend]), by
//     writev, so that the bytes of a block are not gathered once more.
//   - What a connection may hold is bounded in every dimension ([Limits]); a
//     client that sends faster than its commands are done is held up by its
//     own socket.
//   - The source sees each read, so that descriptors which arrive with the
//     bytes of a command can be received.
//
// Neither [Reader] nor [Writer] may be used by several goroutines at a time.
package resp
