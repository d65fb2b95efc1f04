package client

import (
	"net"
	"strconv"
)

// command gathers a command: an array of bulk strings. Large ones are written
// from where they are.
type command struct {
	args int
	out  net.Buffers
	buf  []byte
	mark int // buf[:mark] is in out
	lent int64
}

// lendBytesMin: shorter data are copied, as a piece of its own costs more.
const lendBytesMin = 4 << 10

func newCommand(name string) *command {
	c := &command{}
	c.str(name)
	return c
}

func (c *command) str(s string) {
	c.header(int64(len(s)))
	c.buf = append(c.buf, s...)
	c.end()
}

func (c *command) bytes(p []byte) {
	c.header(int64(len(p)))
	c.buf = append(c.buf, p...)
	c.end()
}

func (c *command) int(n int64) {
	var digits [20]byte
	c.bytes(strconv.AppendInt(digits[:0], n, 10))
}

// data adds the bytes of spans as one argument.
func (c *command) data(spans [][]byte) {
	c.header(spanBytes(spans))
	for _, s := range spans {
		if len(s) < lendBytesMin {
			c.buf = append(c.buf, s...)
			continue
		}
		c.cut()
		c.out = append(c.out, s)
		c.lent += int64(len(s))
	}
	c.end()
}

func (c *command) header(n int64) {
	c.args++
	c.buf = append(c.buf, '$')
	c.buf = strconv.AppendInt(c.buf, n, 10)
	c.end()
}

func (c *command) end() { c.buf = append(c.buf, '\r', '\n') }

// cut hands what was gathered to the list of what is written.
func (c *command) cut() {
	if c.mark < len(c.buf) {
		c.out = append(c.out, c.buf[c.mark:len(c.buf):len(c.buf)])
		c.mark = len(c.buf)
	}
}

// buffers is the command as it is written.
func (c *command) buffers() net.Buffers {
	c.cut()
	head := append(strconv.AppendInt([]byte{'*'}, int64(c.args), 10), '\r', '\n')
	if len(c.out) == 1 {
		return net.Buffers{append(head, c.out[0]...)}
	}
	return append(net.Buffers{head}, c.out...)
}

func spanBytes(spans [][]byte) (n int64) {
	for _, s := range spans {
		n += int64(len(s))
	}
	return n
}
