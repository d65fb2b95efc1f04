//go:build !unix

package server

import (
	"net"
	"os"
	"sync/atomic"
)

const passesFiles = false

// fileSource is for systems whose sockets pass descriptors.
type fileSource struct {
	conn    *net.UnixConn
	bytesIn *atomic.Int64
}

func (f *fileSource) Read(p []byte) (int, error) { return f.conn.Read(p) }
func (f *fileSource) takeFile() *os.File         { return nil }
func (f *fileSource) close()                     {}
