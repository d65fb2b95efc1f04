package server

import (
	"net"
	"os"

	"github.com/sealstone/sealstone/tools/internal/server/shm"
)

// Regions are the pieces of memory that a connection's peer shares with the
// server. They belong to the connection and end with it.
type Regions interface {
	// Add maps sizeBytes of the file, which the peer passed, and takes the
	// file over. The error is a sentence for the peer; shm.ErrLimit if a limit
	// was reached.
	Add(file *os.File, sizeBytes int64) (id int64, err error)
	// Remove ends a region, which is unmapped when nobody uses it; false: there
	// is none.
	Remove(id int64) bool
	// Resolve returns the pieces of memory that "region:offset:length[,…]"
	// names, and how to say that they are not used any more. The error is a
	// sentence for the peer.
	Resolve(text []byte) (spans [][]byte, release func(), err error)
	// InUse reports whether a command uses some of the memory.
	InUse() bool
	// Close ends all.
	Close()
}

// newRegions makes the regions of a connection; nil where its peer can not
// share memory.
func (s *Server) newRegions(nc net.Conn) Regions {
	u, ok := nc.(*net.UnixConn)
	if !ok || !shm.Supported {
		return nil
	}
	uid, err := shm.PeerUID(u)
	if err != nil {
		return nil
	}
	return s.shared.NewTable(uid)
}
