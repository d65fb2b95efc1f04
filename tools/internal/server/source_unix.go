//go:build unix

package server

import (
	"net"
	"os"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

const passesFiles = true

// filesMax bounds the descriptors that came and were not taken; older ones
// are closed.
const filesMax = 4

// fileSource is a Unix socket. Every read takes descriptors too: the kernel
// closes those that come with bytes which are read without asking for them.
type fileSource struct {
	conn    *net.UnixConn
	bytesIn *atomic.Int64
	files   []*os.File
	oob     [256]byte
}

func (f *fileSource) Read(p []byte) (int, error) {
	n, oobn, _, _, err := f.conn.ReadMsgUnix(p, f.oob[:])
	n = max(n, 0) // it is -1 with an error
	f.bytesIn.Add(int64(n))
	if oobn > 0 {
		f.receive(f.oob[:oobn])
	}
	return n, err
}

func (f *fileSource) receive(oob []byte) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return
	}
	for i := range messages {
		fds, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			continue
		}
		for _, fd := range fds {
			f.files = append(f.files, os.NewFile(uintptr(fd), "passed by a peer"))
		}
	}
	for len(f.files) > filesMax {
		_ = f.takeFile().Close()
	}
}

func (f *fileSource) takeFile() *os.File {
	if len(f.files) == 0 {
		return nil
	}
	first := f.files[0]
	f.files = append(f.files[:0], f.files[1:]...)
	return first
}

func (f *fileSource) close() {
	for len(f.files) > 0 {
		_ = f.takeFile().Close()
	}
}
