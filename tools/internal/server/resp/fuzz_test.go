package resp

import (
	"bytes"
	"fmt"
	"testing"
)

// FuzzReader: whatever comes, the reader ends, holds no more than its limits
// and leaves no memory behind; and what it understood it understands again when
// it is written as arrays.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		frame("SET", "k", "v"), frame("PING") + "PING\r\n", "*2\r\n$3\r\nGET\r\n$-1\r\n", "*-1\r\n", "set \"\\x41\" 'b'\r\n",
		"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$600\r\n", frame("A", string(make([]byte, 3000)), string(make([]byte, 9000))),
	} {
		f.Add([]byte(s), uint8(3))
	}
	f.Fuzz(func(t *testing.T, in []byte, piece uint8) {
		l := Limits{ArgsMax: 200, ValueBytesMax: 10_000, CommandBytesMax: 20_000}
		h := newHeap()
		h.limit, h.bound = 30_000, 64<<10
		r := NewReader(&fixedPieces{in, int(piece) + 1}, h, l, never)
		all, _ := readAll(r)
		if h.taken > h.limit || h.charged > h.bound {
			t.Fatalf("beyond the bounds: %+v", h)
		}
		r.Release()
		if !h.empty() {
			t.Fatalf("memory is left: %+v", h)
		}
		for _, g := range all {
			if len(g.args)+g.cut > l.ArgsMax || len(g.args) == 0 {
				t.Fatalf("%d arguments", len(g.args)+g.cut)
			}
			if len(g.lost) > 0 || g.cut > 0 {
				continue
			}
			again, _, err := readString(frame(g.args...), l)
			if err != nil || len(again) != 1 || fmt.Sprintf("%q", again[0].args) != fmt.Sprintf("%q", g.args) {
				t.Fatalf("%q: read again %v, %v", g.args, again, err)
			}
		}
	})
}

type fixedPieces struct {
	in []byte
	n  int
}

func (p *fixedPieces) Read(b []byte) (int, error) {
	n, err := bytes.NewReader(p.in).Read(b[:min(len(b), p.n)])
	p.in = p.in[n:]
	return n, err
}
