package resp

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func newTestWriter(dst io.Writer) *Writer {
	return NewWriter(dst, func() {}, func(int64, error) {})
}

func TestWriterAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		write        func(*Writer)
		want2, want3 string
	}{
		"simple":     {func(w *Writer) { w.Simple("OK") }, "+OK\r\n", ""},
		"error":      {func(w *Writer) { w.Error("ERR a\r\nb") }, "-ERR a  b\r\n", ""},
		"int":        {func(w *Writer) { w.Int(-12) }, ":-12\r\n", ""},
		"null":       {func(w *Writer) { w.Null() }, "$-1\r\n", "_\r\n"},
		"null array": {func(w *Writer) { w.NullArray() }, "*-1\r\n", "_\r\n"},
		"bulk":       {func(w *Writer) { w.Bulk([]byte("a\r\n")) }, "$3\r\na\r\n\r\n", ""},
		"empty bulk": {func(w *Writer) { w.Bulk(nil) }, "$0\r\n\r\n", ""},
		"string":     {func(w *Writer) { w.BulkString("ab") }, "$2\r\nab\r\n", ""},
		"verbatim":   {func(w *Writer) { w.Verbatim("ab") }, "$2\r\nab\r\n", "=6\r\ntxt:ab\r\n"},
		"array":      {func(w *Writer) { w.Array(2); w.Int(1); w.Int(2) }, "*2\r\n:1\r\n:2\r\n", ""},
		"map":        {func(w *Writer) { w.Map(1); w.Int(1); w.Int(2) }, "*2\r\n:1\r\n:2\r\n", "%1\r\n:1\r\n:2\r\n"},
	} {
		for version, want := range map[int]string{2: c.want2, 3: c.want3} {
			if want == "" {
				want = c.want2
			}
			var out bytes.Buffer
			w := newTestWriter(&out)
			w.SetProtocol(version)
			c.write(w)
			if n := w.Pending(); n != int64(len(want)) {
				t.Errorf("%s: %d bytes pending, want %d", name, n, len(want))
			}
			if err := w.Flush(); err != nil || out.String() != want || w.Pending() != 0 {
				t.Errorf("%s in version %d: %q %v, want %q", name, version, out.String(), err, want)
			}
		}
	}
}

// owner is released once.
type owner struct{ released int }

func (o *owner) Release() { o.released++ }

// TestWriterLend: memory is written from where it is, in order, and released
// when it is written.
func TestWriterLend(t *testing.T) {
	for _, size := range []int{0, 1, SmallBytesMax, SmallBytesMax + 1, 100_000, 1 << 20, 1<<20 + 1, 5 << 20} {
		p := bytes.Repeat([]byte("x"), size)
		var out bytes.Buffer
		w := newTestWriter(&out)
		var o owner
		w.Int(1)
		w.Lend(p, &o)
		w.Int(2)
		if lends := size > SmallBytesMax; lends != w.Lends() || lends != (o.released == 0) {
			t.Errorf("%d bytes: lends %v, released %d times", size, w.Lends(), o.released)
		}
		if err := w.Flush(); err != nil || o.released != 1 || w.Lends() {
			t.Errorf("%d bytes: %v, released %d times", size, err, o.released)
		}
		r := NewReader(strings.NewReader("*3\r\n$1\r\na\r\n"+strings.TrimSuffix(strings.TrimPrefix(out.String(), ":1\r\n"), ":2\r\n")+"$1\r\nb\r\n"),
			&heap{limit: 1 << 30, bound: 1 << 30}, Limits{ArgsMax: 3, ValueBytesMax: 1 << 30, CommandBytesMax: 1 << 30}, never)
		c, err := r.Next()
		if err != nil || !bytes.Equal(c.Args[1], p) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

// TestWriterFull: answers longer than what is gathered are written in between,
// byte for byte.
func TestWriterFull(t *testing.T) {
	var out bytes.Buffer
	w := newTestWriter(&out)
	var want strings.Builder
	for i := range 500 {
		s := strings.Repeat("s", i*7)
		w.Bulk([]byte(s))
		w.BulkString(s)
		w.Error(s)
		want.WriteString("$" + itoa(len(s)) + "\r\n" + s + "\r\n$" + itoa(len(s)) + "\r\n" + s + "\r\n-" + s + "\r\n")
	}
	if err := w.Flush(); err != nil || out.String() != want.String() {
		t.Fatalf("%d bytes, want %d", out.Len(), want.Len())
	}
	if cap(w.out) != bufferBytes {
		t.Errorf("the buffer grew to %d", cap(w.out))
	}
}

func itoa(n int) string {
	w := newTestWriter(io.Discard)
	w.Int(int64(n))
	return strings.TrimSuffix(string(w.out[1:]), "\r\n")
}

// broken fails after some bytes.
type broken struct{ left int }

var errBroken = errors.New("broken")

func (b *broken) Write(p []byte) (int, error) {
	if b.left < len(p) {
		n := b.left
		b.left = 0
		return n, errBroken
	}
	b.left -= len(p)
	return len(p), nil
}

// TestWriterBroken: after a failed write nothing more is written, and all that
// was lent is released.
func TestWriterBroken(t *testing.T) {
	for left := range 30 {
		var written int64
		calls := 0
		w := NewWriter(&broken{left}, func() {}, func(n int64, err error) { written += n; calls++ })
		var o [3]owner
		for i := range o {
			w.Lend(make([]byte, SmallBytesMax+1), &o[i])
			_ = w.Flush()
		}
		if !errors.Is(w.Err(), errBroken) || !errors.Is(w.Flush(), errBroken) {
			t.Fatalf("%v after a failed write", w.Err())
		}
		for i := range o {
			if o[i].released != 1 {
				t.Errorf("owner %d released %d times", i, o[i].released)
			}
		}
		if written != int64(left) || calls > 3 {
			t.Errorf("%d bytes written of %d, in %d calls", written, left, calls)
		}
	}
}
