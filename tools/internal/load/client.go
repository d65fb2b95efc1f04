package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// answer is what came back for a command.
type answer struct {
	kind byte   // '+', '-', ':', '$', '*', or '_' for what is not there
	text []byte // of a line or a bulk; good until the next command
	n    int64
	list []answer
}

func (a *answer) missing() bool { return a.kind == '_' }
func (a *answer) is(s string) bool {
	return (a.kind == '+' || a.kind == '$') && string(a.text) == s
}

// errAnswer is an answer that is none of the protocol, or not to what was asked.
var errAnswer = errors.New("load: not an answer")

// client is a connection. It belongs to one goroutine.
type client struct {
	conn    net.Conn
	in      *bufio.Reader
	out     *bufio.Writer
	arena   []byte
	timeout time.Duration
}

// dial makes connection i and logs in. A slow one takes its time with every
// byte.
func dial(ctx context.Context, c *Config, i int, slow bool) (*client, error) {
	network, address, err := splitAddress(c.Servers[i%len(c.Servers)])
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: c.Timeout}
	nc, err := d.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	k := &client{conn: nc, timeout: c.Timeout}
	var rw io.ReadWriter = nc
	if slow {
		rw = &throttled{nc, ctx}
		k.timeout *= slowPatience
	}
	k.in, k.out = bufio.NewReaderSize(rw, 32<<10), bufio.NewWriterSize(rw, 32<<10)
	if c.Password == "" {
		return k, nil
	}
	a, err := k.do("AUTH", c.User, c.Password)
	if err == nil && !a.is("OK") {
		err = fmt.Errorf("load: log in: %s", a.text)
	}
	if err != nil {
		k.close()
		return nil, err
	}
	return k, nil
}

func (k *client) close() { _ = k.conn.Close() }

// begin starts a batch of commands: their answers share one arena.
func (k *client) begin() {
	k.arena = k.arena[:0]
	_ = k.conn.SetDeadline(time.Now().Add(k.timeout))
}

// send writes a command; arguments are strings, byte slices or numbers.
func (k *client) send(args ...any) {
	fmt.Fprintf(k.out, "*%d\r\n", len(args))
	for _, a := range args {
		switch a := a.(type) {
		case []byte:
			fmt.Fprintf(k.out, "$%d\r\n", len(a))
			_, _ = k.out.Write(a)
		case string:
			fmt.Fprintf(k.out, "$%d\r\n%s", len(a), a)
		default:
			s := fmt.Sprint(a)
			fmt.Fprintf(k.out, "$%d\r\n%s", len(s), s)
		}
		_, _ = k.out.WriteString("\r\n")
	}
}

// do sends one command and reads its answer.
func (k *client) do(args ...any) (answer, error) {
	k.begin()
	k.send(args...)
	return k.read()
}

// read flushes what was sent and reads the next answer.
func (k *client) read() (answer, error) {
	if k.out.Buffered() > 0 {
		if err := k.out.Flush(); err != nil {
			return answer{}, err
		}
	}
	return k.answer(0)
}

// depthMax and listMax bound what an answer may make of our memory.
const (
	depthMax = 8
	listMax  = 1 << 20
)

func (k *client) answer(depth int) (answer, error) {
	line, err := k.in.ReadSlice('\n')
	if err != nil {
		return answer{}, err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return answer{}, fmt.Errorf("%w: line %q", errAnswer, line)
	}
	kind, rest := line[0], line[1:len(line)-2]
	switch kind {
	case '+', '-':
		return answer{kind: kind, text: k.keep(rest)}, nil
	case '_':
		return answer{kind: '_'}, nil
	}
	n, err := strconv.ParseInt(string(rest), 10, 64)
	switch {
	case err != nil:
		return answer{}, fmt.Errorf("%w: line %q", errAnswer, line)
	case kind == ':':
		return answer{kind: kind, n: n}, nil
	case kind == '$' && n == -1, kind == '*' && n == -1:
		return answer{kind: '_'}, nil
	case kind == '$' && n >= 0 && n <= valueBytesMax:
		return k.bulk(int(n))
	case kind == '*' && n >= 0 && n <= listMax && depth < depthMax:
		return k.array(int(n), depth)
	}
	return answer{}, fmt.Errorf("%w: line %q", errAnswer, line)
}

func (k *client) keep(p []byte) []byte {
	from := len(k.arena)
	k.arena = append(k.arena, p...)
	return k.arena[from:len(k.arena):len(k.arena)]
}

func (k *client) bulk(n int) (answer, error) {
	from := len(k.arena)
	if cap(k.arena)-from < n+2 {
		// Earlier answers of the batch keep the arena that they lie in.
		k.arena, from = make([]byte, 0, max(2*cap(k.arena), n+2)), 0
	}
	k.arena = k.arena[:from+n+2]
	p := k.arena[from:]
	if _, err := io.ReadFull(k.in, p); err != nil {
		return answer{}, err
	}
	if p[n] != '\r' || p[n+1] != '\n' {
		return answer{}, fmt.Errorf("%w: %q behind a value of %d bytes", errAnswer, p[n:], n)
	}
	return answer{kind: '$', text: p[:n:n]}, nil
}

func (k *client) array(n, depth int) (answer, error) {
	a := answer{kind: '*'}
	for range n {
		e, err := k.answer(depth + 1)
		if err != nil {
			return answer{}, err
		}
		a.list = append(a.list, e)
	}
	return a, nil
}
