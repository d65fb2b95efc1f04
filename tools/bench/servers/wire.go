package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
)

// wire is how a server is spoken to.
type wire interface {
	set(w *bufio.Writer, r *bufio.Reader, key string, value []byte) error
	// get reads a value into p; found is false for a miss.
	get(w *bufio.Writer, r *bufio.Reader, key string, p []byte) (n int, found bool, err error)
}

var errWire = errors.New("an answer that is none")

type respWire struct{}

func newRESP() wire { return respWire{} }

func (respWire) set(w *bufio.Writer, r *bufio.Reader, key string, value []byte) error {
	fmt.Fprintf(w, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n", len(key), key, len(value))
	w.Write(value)
	w.WriteString("\r\n")
	return expect(w, r, "+OK\r\n")
}

func (respWire) get(w *bufio.Writer, r *bufio.Reader, key string, p []byte) (int, bool, error) {
	fmt.Fprintf(w, "*2\r\n$3\r\nGET\r\n$%d\r\n%s\r\n", len(key), key)
	line, err := ask(w, r)
	if err != nil || string(line) == "$-1\r\n" {
		return 0, false, err
	}
	if len(line) < 4 || line[0] != '$' {
		return 0, false, fmt.Errorf("%w: %q", errWire, line)
	}
	return value(r, line[1:len(line)-2], p)
}

type memcachedWire struct{}

func newMemcached() wire { return memcachedWire{} }

func (memcachedWire) set(w *bufio.Writer, r *bufio.Reader, key string, value []byte) error {
	fmt.Fprintf(w, "set %s 0 0 %d\r\n", key, len(value))
	w.Write(value)
	w.WriteString("\r\n")
	return expect(w, r, "STORED\r\n")
}

func (memcachedWire) get(w *bufio.Writer, r *bufio.Reader, key string, p []byte) (int, bool, error) {
	fmt.Fprintf(w, "get %s\r\n", key)
	line, err := ask(w, r)
	if err != nil || string(line) == "END\r\n" {
		return 0, false, err
	}
	f := bytes.Fields(line)
	if len(f) != 4 || string(f[0]) != "VALUE" {
		return 0, false, fmt.Errorf("%w: %q", errWire, line)
	}
	n, found, err := value(r, f[3], p)
	if err != nil {
		return 0, false, err
	}
	return n, found, expect(w, r, "END\r\n")
}

// value reads a value of a length in digits, and the end of line behind it.
func value(r *bufio.Reader, digits, p []byte) (int, bool, error) {
	n, err := strconv.Atoi(string(digits))
	if err != nil || n > len(p) {
		return 0, false, fmt.Errorf("%w: a length of %q", errWire, digits)
	}
	if _, err := io.ReadFull(r, p[:n]); err != nil {
		return 0, false, err
	}
	_, err = r.Discard(2)
	return n, true, err
}

func ask(w *bufio.Writer, r *bufio.Reader) ([]byte, error) {
	if err := w.Flush(); err != nil {
		return nil, err
	}
	return r.ReadSlice('\n')
}

func expect(w *bufio.Writer, r *bufio.Reader, want string) error {
	line, err := ask(w, r)
	if err == nil && string(line) != want {
		err = fmt.Errorf("%w: %q", errWire, line)
	}
	return err
}

// connection is a client's.
type connection struct {
	net.Conn
	wire
	w *bufio.Writer
	r *bufio.Reader
}

func dial(address string, w wire) (*connection, error) {
	nc, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	return &connection{nc, w, bufio.NewWriterSize(nc, 64<<10), bufio.NewReaderSize(nc, 64<<10)}, nil
}
