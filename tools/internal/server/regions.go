package server

import (
	"os"

	"github.com/sealstone/sealstone/engine"
)

// Regions are the pieces of memory that a connection's peer shares with the
// server. They belong to the connection and end with it.
type Regions interface {
	// Add maps sizeBytes of the file, which the peer passed, and takes the
	// file over. The error is a sentence for the peer.
	Add(file *os.File, sizeBytes int64) (id int64, err error)
	// Remove unmaps a region that no command uses; false: there is none.
	Remove(id int64) bool
	// Spans are the pieces of memory that "region:offset:length[,…]" names.
	// The error is a sentence for the peer.
	Spans(text []byte) ([][]byte, error)
	// Close unmaps all.
	Close()
}

// newRegions makes the regions of a connection; nil where the system can not
// share memory.
var newRegions func(*engine.Store) Regions
