package shm

import (
	"errors"
	"fmt"
	"sync"

	"github.com/sealstone/sealstone/engine"
)

// Limits bound what peers may have mapped. The zero value of each field means
// its default.
type Limits struct {
	// RegionsMax and BytesMax bound one connection's. The defaults are 64
	// regions and 1 TiB.
	RegionsMax int
	BytesMax   int64
	// HostRegionsMax and HostBytesMax bound those of all connections together:
	// a process has only so many mappings (vm.max_map_count), and needs some
	// for itself. The defaults are 4096 regions and 16 TiB.
	HostRegionsMax int
	HostBytesMax   int64
}

func (l Limits) withDefaults() Limits {
	if l.RegionsMax == 0 {
		l.RegionsMax = 64
	}
	if l.BytesMax == 0 {
		l.BytesMax = 1 << 40
	}
	if l.HostRegionsMax == 0 {
		l.HostRegionsMax = 4096
	}
	if l.HostBytesMax == 0 {
		l.HostBytesMax = 16 << 40
	}
	return l
}

// ErrLimit: one of Limits was reached.
var ErrLimit = errors.New("limit")

// Host is what the connections of a server have mapped together.
type Host struct {
	store  *engine.Store
	limits Limits

	mu      sync.Mutex
	regions int
	bytes   int64
	refused int64
}

// Stats are figures of a Host.
type Stats struct {
	Regions, RegionsMax int   // mapped now, and the most of all connections
	Bytes, BytesMax     int64 // of them
	Refused             int64 // that were not mapped
}

// NewHost makes the Host of a server over a store.
func NewHost(store *engine.Store, l Limits) *Host {
	return &Host{store: store, limits: l.withDefaults()}
}

// Stats returns the figures of now.
func (h *Host) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Stats{
		Regions: h.regions, RegionsMax: h.limits.HostRegionsMax, Bytes: h.bytes, BytesMax: h.limits.HostBytesMax, Refused: h.refused,
	}
}

// reserve takes room for one more region.
func (h *Host) reserve(sizeBytes int64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.regions >= h.limits.HostRegionsMax || sizeBytes > h.limits.HostBytesMax-h.bytes {
		return fmt.Errorf("%w: all peers together have %d regions of %d bytes, %d of %d are allowed; send the data within the commands",
			ErrLimit, h.regions, h.bytes, h.limits.HostRegionsMax, h.limits.HostBytesMax)
	}
	h.regions++
	h.bytes += sizeBytes
	return nil
}

func (h *Host) giveBack(sizeBytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.regions--
	h.bytes -= sizeBytes
}

func (h *Host) refuse() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused++
}
