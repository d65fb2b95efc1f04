package resp

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// heap is a Memory with bounds, which knows what was not given back.
type heap struct {
	limit, taken   int64
	charged, bound int64
	taking         int // buffers out
}

func newHeap() *heap { return &heap{limit: 1 << 20, bound: 1 << 20} }

type heapBuffer struct {
	h *heap
	p []byte
}

func (b *heapBuffer) Bytes() []byte { return b.p }

func (b *heapBuffer) Free() {
	b.h.taken -= int64(len(b.p))
	b.h.taking--
	for i := range b.p {
		b.p[i] = 0xdd // whoever looks at it from now on sees it
	}
}

func (h *heap) Take(size int, _ bool) Buffer {
	if h.taken+int64(size) > h.limit {
		return nil
	}
	h.taken += int64(size)
	h.taking++
	return &heapBuffer{h, make([]byte, size)}
}

func (h *heap) Charge(n int64) bool {
	if h.charged+n > h.bound {
		return false
	}
	h.charged += n
	return true
}

func (h *heap) Refund(n int64) { h.charged -= n }

func (h *heap) empty() bool { return h.taken == 0 && h.charged == 0 && h.taking == 0 }

var testLimits = Limits{ArgsMax: 2000, ValueBytesMax: 100_000, CommandBytesMax: 300_000}

func never(int64) error { return nil }

// got is a command as it can be kept.
type got struct {
	args []string
	lost []Lost
	cut  int
}

func copyOf(c *Command) got {
	g := got{cut: c.Cut, lost: append([]Lost(nil), c.Lost...)}
	for _, a := range c.Args {
		g.args = append(g.args, string(a))
	}
	return g
}

// readAll reads commands up to the end of the source, or the first error.
func readAll(r *Reader) (all []got, err error) {
	for {
		c, err := r.Next()
		if err == io.EOF {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		all = append(all, copyOf(c))
	}
}

func readString(s string, l Limits) ([]got, *heap, error) {
	h := newHeap()
	r := NewReader(strings.NewReader(s), h, l, never)
	all, err := readAll(r)
	r.Release()
	return all, h, err
}

// frame is a command as an array.
func frame(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

func isMalformed(err error) bool {
	var p *ProtocolError
	return errors.As(err, &p)
}
