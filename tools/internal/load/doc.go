// Package load puts a cache server under load and looks at every byte that
// comes back.
//
// Many connections stay open; some of them write and read, some read or write
// slowly, some die in the middle of a frame, some send what is no frame. The
// value of a key follows from the key and a version that counts up, so any
// answer can be judged without asking who wrote it: right, of another key, cut
// short, with wrong bytes, older than what was acknowledged before it was
// asked for, or newer than anything that was sent.
//
// It shares no code with the server: frames are written and answers read by a
// client of its own, which trusts nothing.
package load
