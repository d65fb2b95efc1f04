//go:build !unix

package daemon

import (
	"errors"
	"net"
)

// ErrSocketInUse: another server answers at the path of the socket.
var ErrSocketInUse = errors.New("the socket is in use")

func listenUnix(string) (net.Listener, error) {
	return nil, errors.New("this system has no Unix sockets that a mode protects; leave unix unset")
}
