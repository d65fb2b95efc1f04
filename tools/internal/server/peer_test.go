package server

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// frame is a command as clients send it.
func frame(args ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	return b.String()
}

func (p *peer) send(s string) {
	p.t.Helper()
	if _, err := io.WriteString(p.c, s); err != nil {
		p.t.Fatalf("send: %v", err)
	}
}

// exact reads exactly the bytes of want, as a client does that trusts the
// server: were there fewer it would wait for ever.
func (p *peer) exact(want string) {
	p.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(p.in, got)
	if err != nil || string(got) != want {
		p.t.Fatalf("answer %q (%v), want %q", brief(string(got[:n])), err, brief(want))
	}
}

// ended sees that the server has closed the connection and sent nothing more.
func (p *peer) ended() {
	p.t.Helper()
	if rest, err := io.ReadAll(p.in); err != nil || len(rest) > 0 {
		p.t.Fatalf("read %q, %v: want the end", brief(string(rest)), err)
	}
}

func brief(s string) string {
	if len(s) > 200 {
		return s[:100] + "…" + s[len(s)-100:]
	}
	return s
}

// An answer is nil, int64, string (bulk), status, failure, []any, or pairs.
type (
	status  string
	failure string
	pairs   []any
)

func (p *peer) do(args ...string) any {
	p.t.Helper()
	p.send(frame(args...))
	return p.answer()
}

func (p *peer) answer() any {
	p.t.Helper()
	a, err := readAnswer(p.in)
	if err != nil {
		p.t.Fatalf("answer: %v", err)
	}
	return a
}

func readAnswer(in *bufio.Reader) (any, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(line, "\r\n") || len(line) < 3 {
		return nil, fmt.Errorf("line %q", line)
	}
	kind, rest := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return status(rest), nil
	case '-':
		return failure(rest), nil
	case '_':
		return nil, nil
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, err
	}
	switch kind {
	case ':':
		return n, nil
	case '$', '=':
		if n < 0 {
			return nil, nil
		}
		p := make([]byte, n+2)
		if _, err := io.ReadFull(in, p); err != nil {
			return nil, err
		}
		if string(p[n:]) != "\r\n" {
			return nil, fmt.Errorf("%q after a value of %d bytes", p[n:], n)
		}
		return string(p[:n]), nil
	case '*', '%':
		return readAnswers(in, kind, n)
	}
	return nil, fmt.Errorf("line %q", line)
}

func readAnswers(in *bufio.Reader, kind byte, n int64) (any, error) {
	if n < 0 {
		return nil, nil
	}
	if kind == '%' {
		n *= 2
	}
	all := make([]any, n)
	for i := range all {
		var err error
		if all[i], err = readAnswer(in); err != nil {
			return nil, err
		}
	}
	if kind == '%' {
		return pairs(all), nil
	}
	return all, nil
}

// want compares an answer, in Go's notation.
func (p *peer) want(want any, args ...string) {
	p.t.Helper()
	if got := p.do(args...); fmt.Sprintf("%#v", got) != fmt.Sprintf("%#v", want) {
		p.t.Fatalf("%s: %s, want %s", brief(strings.Join(args, " ")), brief(fmt.Sprintf("%#v", got)), brief(fmt.Sprintf("%#v", want)))
	}
}

// fails sees that the answer is an error line which begins so.
func (p *peer) fails(prefix string, args ...string) {
	p.t.Helper()
	if got, ok := p.do(args...).(failure); !ok || !strings.HasPrefix(string(got), prefix) {
		p.t.Fatalf("%s: %#v, want an error %q", brief(strings.Join(args, " ")), got, prefix)
	}
}
