package resp

import (
	"io"
	"net"
	"strconv"
)

// writeBytes is how much is written at a time: a peer that reads slowly has
// the hook's patience for each as much.
const writeBytes = 1<<20 + 64<<10

// Lent is memory that an answer is written from; Release gives it back.
type Lent interface{ Release() }

// Writer gathers answers, and writes them when it is flushed or full. After an
// error it writes no more and answers that error to every Flush.
type Writer struct {
	dst    io.Writer
	before func()                   // before each write
	after  func(n int64, err error) // after it
	proto  int

	out   []byte // gathered; out[:mark] is in iov already
	mark  int
	iov   net.Buffers
	group net.Buffers
	lent  []Lent
	err   error

	lentBytes int64 // gathered by LendPart
}

// NewWriter writes to dst, by writev where dst is a connection of package net.
// Before each write of at most about a MiB, before is called, and after when it
// has ended, with what was written.
func NewWriter(dst io.Writer, before func(), after func(n int64, err error)) *Writer {
	return &Writer{dst: dst, before: before, after: after, proto: 2, out: make([]byte, 0, bufferBytes)}
}

// SetProtocol chooses between versions 2 and 3.
func (w *Writer) SetProtocol(version int) { w.proto = version }

// Protocol is the version in use.
func (w *Writer) Protocol() int { return w.proto }

// Pending is how many bytes are gathered.
func (w *Writer) Pending() int64 { return w.lentBytes + int64(len(w.out)) }

// Lends reports whether memory of others is held.
func (w *Writer) Lends() bool { return len(w.lent) > 0 }

// Err is what the first failed write ended with.
func (w *Writer) Err() error { return w.err }

// Simple writes a status line; s is of this program, without line ends.
func (w *Writer) Simple(s string) { w.line('+', s) }

// Error writes an error line. Line ends in it become blanks.
func (w *Writer) Error(s string) {
	w.room(len(s) + 3)
	w.out = append(w.out, '-')
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\r' || c == '\n' {
			c = ' '
		}
		w.appendByte(c)
	}
	w.end()
}

// Int writes a number.
func (w *Writer) Int(n int64) { w.number(':', n) }

// Null is the answer for what is not there.
func (w *Writer) Null() {
	if w.proto == 3 {
		w.line('_', "")
		return
	}
	w.line('$', "-1")
}

// NullArray is Null where an array would stand.
func (w *Writer) NullArray() {
	if w.proto == 3 {
		w.Null()
		return
	}
	w.line('*', "-1")
}

// Bulk copies p.
func (w *Writer) Bulk(p []byte) {
	w.number('$', int64(len(p)))
	w.copy(p)
	w.end()
}

// BulkString copies s.
func (w *Writer) BulkString(s string) {
	w.number('$', int64(len(s)))
	for len(s) > 0 {
		w.room(1)
		n := min(len(s), cap(w.out)-len(w.out))
		w.out = append(w.out, s[:n]...)
		s = s[n:]
	}
	w.end()
}

// Verbatim writes a text for people, which clients of version 3 know as such.
func (w *Writer) Verbatim(s string) {
	if w.proto == 3 {
		w.number('=', int64(len(s)+4))
		w.out = append(w.out, "txt:"...)
		w.copy([]byte(s))
		w.end()
		return
	}
	w.BulkString(s)
}

// Lend writes p, as a bulk string, from where it is; owner is released when
// it is written, or can not be any more. Short ones are copied.
func (w *Writer) Lend(p []byte, owner Lent) {
	if len(p) <= SmallBytesMax {
		w.Bulk(p)
		owner.Release()
		return
	}
	w.number('$', int64(len(p)))
	w.LendPart(p)
	w.Hold(owner)
	w.end()
}

// LendPart writes p as it is from where it is, as a part of an answer whose
// owner is given to Hold.
func (w *Writer) LendPart(p []byte) {
	w.cut()
	w.lentBytes += int64(len(p))
	for len(p) > 0 {
		n := min(len(p), 1<<20)
		w.iov = append(w.iov, p[:n:n])
		p = p[n:]
	}
}

// Hold releases owner when all that was gathered so far is written, or can not
// be any more.
func (w *Writer) Hold(owner Lent) {
	if w.err != nil {
		owner.Release()
		return
	}
	w.lent = append(w.lent, owner)
}

// BulkHeader begins a bulk string of n bytes, whose parts follow by LendPart;
// End ends it.
func (w *Writer) BulkHeader(n int64) { w.number('$', n) }

// End ends a line.
func (w *Writer) End() { w.end() }

// Array begins an array of n answers.
func (w *Writer) Array(n int) { w.number('*', int64(n)) }

// Map begins a map of n pairs; in version 2 it is an array of keys and values.
func (w *Writer) Map(n int) {
	if w.proto == 3 {
		w.number('%', int64(n))
		return
	}
	w.Array(2 * n)
}

func (w *Writer) line(kind byte, s string) {
	w.room(len(s) + 3)
	w.out = append(w.out, kind)
	w.out = append(w.out, s...)
	w.end()
}

func (w *Writer) number(kind byte, n int64) {
	w.room(24)
	w.out = append(w.out, kind)
	w.out = strconv.AppendInt(w.out, n, 10)
	w.end()
}

func (w *Writer) end() {
	w.room(2)
	w.out = append(w.out, '\r', '\n')
}

func (w *Writer) appendByte(c byte) {
	w.room(1)
	w.out = append(w.out, c)
}

func (w *Writer) copy(p []byte) {
	for len(p) > 0 {
		w.room(1)
		n := min(len(p), cap(w.out)-len(w.out))
		w.out = append(w.out, p[:n]...)
		p = p[n:]
	}
}

// room sees that n bytes fit into what is gathered, n being short.
func (w *Writer) room(n int) {
	if len(w.out)+min(n, cap(w.out)) > cap(w.out) {
		w.Flush()
	}
}

// cut hands what was gathered to the list of what is written.
func (w *Writer) cut() {
	if w.mark < len(w.out) {
		p := w.out[w.mark:len(w.out):len(w.out)]
		w.iov = append(w.iov, p)
		w.mark = len(w.out)
	}
}

// Flush writes all that is gathered.
func (w *Writer) Flush() error {
	w.cut()
	for rest := w.iov; len(rest) > 0 && w.err == nil; {
		size := 0
		n := 0
		for n < len(rest) && (n == 0 || size+len(rest[n]) <= writeBytes) {
			size += len(rest[n])
			n++
		}
		w.write(rest[:n])
		rest = rest[n:]
	}
	clear(w.iov)
	for i, l := range w.lent {
		l.Release()
		w.lent[i] = nil
	}
	w.iov, w.lent, w.out, w.mark = w.iov[:0], w.lent[:0], w.out[:0], 0
	w.lentBytes = 0
	return w.err
}

func (w *Writer) write(p net.Buffers) {
	w.before()
	var n int64
	if len(p) == 1 {
		var k int
		k, w.err = w.dst.Write(p[0])
		n = int64(k)
	} else {
		w.group = append(w.group[:0], p...) // WriteTo eats its list
		spare := w.group
		n, w.err = w.group.WriteTo(w.dst)
		clear(spare)
		w.group = spare
	}
	w.after(n, w.err)
}
