package server

import (
	"net"
	"os"
	"sync/atomic"
)

// source is what a connection's commands are read from.
type source interface {
	Read(p []byte) (int, error)
	// takeFile returns the oldest descriptor that the peer passed and nobody
	// took, or nil.
	takeFile() *os.File
	close()
}

func newSource(nc net.Conn, bytesIn *atomic.Int64) source {
	if u, ok := nc.(*net.UnixConn); ok && passesFiles {
		return &fileSource{conn: u, bytesIn: bytesIn}
	}
	return &plainSource{nc, bytesIn}
}

// plainSource is a connection over which no descriptors can be passed.
type plainSource struct {
	net.Conn
	bytesIn *atomic.Int64
}

func (p *plainSource) Read(b []byte) (int, error) {
	n, err := p.Conn.Read(b)
	p.bytesIn.Add(int64(n))
	return n, err
}

func (p *plainSource) takeFile() *os.File { return nil }
func (p *plainSource) close()             {}
