package client

import (
	"bufio"
	"errors"
	"io"
	"math"
)

// Bounds of what an answer may claim.
const (
	answerLineMax = 64 << 10
	answerBulkMax = 512 << 20
	answerListMax = 1 << 20
	numberTextMax = 20
	readBytes     = 64 << 10
)

// answers reads the answers of one connection. Answers of version 2 of the
// protocol are enough: nothing is pushed.
type answers struct {
	in    *bufio.Reader
	lines int // of the answer under way that came
}

func newAnswers(src io.Reader) *answers { return &answers{in: bufio.NewReaderSize(src, readBytes)} }

// line reads a line: its kind and what follows. An error line is an error.
func (a *answers) line() (kind byte, text []byte, err error) {
	line, err := a.in.ReadSlice('\n')
	if len(line) > 0 {
		a.lines++
	}
	switch {
	case errors.Is(err, bufio.ErrBufferFull):
		return 0, nil, malformed("a line of more than %d bytes", readBytes)
	case err != nil:
		return 0, nil, err
	case len(line) < 3 || line[len(line)-2] != '\r':
		return 0, nil, malformed("a line without an end")
	}
	kind, text = line[0], line[1:len(line)-2]
	if kind == '-' {
		return 0, nil, serverError(text)
	}
	return kind, text, nil
}

// header reads a line of a kind with a number.
func (a *answers) header(want byte, most int64) (int64, error) {
	kind, text, err := a.line()
	if err != nil {
		return 0, err
	}
	n, ok := number(text)
	if kind != want || !ok || n > most {
		return 0, malformed("%q where %q and a number up to %d belong", string(kind)+string(text[:min(len(text), 32)]), want, most)
	}
	return n, nil
}

// number reads digits; -1 is what is not there.
func number(text []byte) (n int64, ok bool) {
	if string(text) == "-1" {
		return -1, true
	}
	for _, b := range text {
		d := int64(b) - '0'
		if d < 0 || d > 9 || n > (math.MaxInt64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, len(text) > 0
}

// int reads a number, as such or as a string.
func (a *answers) int() (int64, error) {
	p, err := a.text(numberTextMax)
	if err != nil {
		return 0, err
	}
	n, ok := number(p)
	if !ok {
		return 0, malformed("%q where a number belongs", p)
	}
	return n, nil
}

// list begins an array.
func (a *answers) list() (int, error) {
	n, err := a.header('*', answerListMax)
	return int(n), err
}

// listOf begins an array of a known length.
func (a *answers) listOf(want int) error {
	n, err := a.list()
	if err == nil && n != want {
		err = malformed("a list of %d where %d belong", n, want)
	}
	return err
}

// bulk begins a string: its length, after which size bytes and end follow.
func (a *answers) bulk() (int64, error) {
	n, err := a.header('$', answerBulkMax)
	if err == nil && n < 0 {
		err = malformed("nothing where a string belongs")
	}
	return n, err
}

func (a *answers) full(p []byte) error {
	_, err := io.ReadFull(a.in, p)
	return err
}

func (a *answers) skip(n int64) error {
	_, err := io.CopyN(io.Discard, a.in, n)
	return err
}

func (a *answers) end() error {
	var crlf [2]byte
	if err := a.full(crlf[:]); err != nil {
		return err
	}
	if crlf != [2]byte{'\r', '\n'} {
		return malformed("a string without an end")
	}
	return nil
}

// text reads a short string, of whatever kind.
func (a *answers) text(most int64) ([]byte, error) {
	kind, text, err := a.line()
	if err != nil {
		return nil, err
	}
	if kind == '+' || kind == ':' {
		return append([]byte(nil), text...), nil
	}
	n, ok := number(text)
	if kind != '$' || !ok || n < 0 || n > most {
		return nil, malformed("%q where a string of at most %d bytes belongs", string(kind)+string(text[:min(len(text), 32)]), most)
	}
	p := make([]byte, n)
	if err := a.full(p); err != nil {
		return nil, err
	}
	return p, a.end()
}
