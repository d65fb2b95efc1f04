//go:build !linux

package shm

import (
	"errors"
	"net"
	"os"
)

// Supported: peers can share memory with the server on this system.
const Supported = false

var errUnsupported = errors.New("shared memory is supported on Linux only; send the data within the commands")

// PeerUID is the user that the other end of a Unix socket ran as when it
// connected.
func PeerUID(*net.UnixConn) (int, error) { return 0, errUnsupported }

func mapFile(*os.File, int64, int) ([]byte, error) { return nil, errUnsupported }

func unmap([]byte) {}
