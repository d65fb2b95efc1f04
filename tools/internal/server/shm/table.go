package shm

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/sealstone/sealstone/engine"
)

// AnyUser lets the owner of a peer's files be anybody.
const AnyUser = -1

// Table is the regions of one connection. Its methods may be called from
// several goroutines.
type Table struct {
	h       *Host
	peerUID int // may own the files beside the server's own user

	mu      sync.Mutex
	lastID  int64
	regions map[int64]*region
	count   int // of regions, and of those that are being added
	bytes   int64
	closed  bool
}

var errClosed = errors.New("the connection is closed")

// region is a mapping. It is unmapped when it has been removed and nobody uses
// it any more.
type region struct {
	h       *Host
	mem     []byte // as long as the peer said
	whole   []byte // as it was mapped
	known   *engine.Memory
	uses    int // of Table.mu
	removed bool
}

// NewTable makes the table of a connection whose peer runs as a user.
func (h *Host) NewTable(peerUID int) *Table {
	return &Table{h: h, peerUID: peerUID, regions: map[int64]*region{}}
}

// Add maps sizeBytes of a file from its beginning and takes the file over: it
// is closed when Add returns. The error is a sentence for the peer; ErrLimit if
// a limit was reached.
func (t *Table) Add(file *os.File, sizeBytes int64) (id int64, err error) {
	defer file.Close()
	r, err := t.add(file, sizeBytes)
	if err != nil {
		t.h.refuse()
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lastID++ // an id is never given twice
	t.regions[t.lastID] = r
	if t.closed { // meanwhile
		t.removeLocked(t.lastID)
		return 0, errClosed
	}
	return t.lastID, nil
}

func (t *Table) add(file *os.File, sizeBytes int64) (*region, error) {
	if sizeBytes <= 0 || sizeBytes > t.h.limits.BytesMax {
		return nil, fmt.Errorf("%w: a region of %d bytes; 1 to %d are allowed", ErrLimit, sizeBytes, t.h.limits.BytesMax)
	}
	if err := t.reserve(sizeBytes); err != nil {
		return nil, err
	}
	r, err := t.mapRegion(file, sizeBytes)
	if err != nil {
		t.giveBack(sizeBytes)
		return nil, err
	}
	return r, nil
}

// reserve takes room among the connection's and everybody's regions.
func (t *Table) reserve(sizeBytes int64) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return errClosed
	case t.count >= t.h.limits.RegionsMax || sizeBytes > t.h.limits.BytesMax-t.bytes:
		return fmt.Errorf("%w: this connection has %d regions of %d bytes, %d of %d are allowed; make a few large ones",
			ErrLimit, t.count, t.bytes, t.h.limits.RegionsMax, t.h.limits.BytesMax)
	}
	if err := t.h.reserve(sizeBytes); err != nil {
		return err
	}
	t.count++
	t.bytes += sizeBytes
	return nil
}

func (t *Table) giveBack(sizeBytes int64) {
	t.mu.Lock()
	t.count--
	t.bytes -= sizeBytes
	t.mu.Unlock()
	t.h.giveBack(sizeBytes)
}

func (t *Table) mapRegion(file *os.File, sizeBytes int64) (*region, error) {
	whole, err := mapFile(file, sizeBytes, t.peerUID)
	if err != nil {
		return nil, err
	}
	r := &region{h: t.h, mem: whole[:sizeBytes:sizeBytes], whole: whole}
	if r.known, err = t.h.store.RegisterMemory(r.mem, engine.MemoryOptions{Guarded: true}); err != nil {
		unmap(whole)
		return nil, err
	}
	return r, nil
}

// Remove ends a region; false: there is none of this id. It is unmapped when
// the last use of it has ended.
func (t *Table) Remove(id int64) bool {
	t.mu.Lock()
	r := t.regions[id]
	t.removeLocked(id)
	t.mu.Unlock()
	return r != nil
}

func (t *Table) removeLocked(id int64) {
	r := t.regions[id]
	if r == nil {
		return
	}
	delete(t.regions, id)
	t.count--
	t.bytes -= int64(len(r.mem))
	r.removed = true
	r.endIfUnused()
}

// endIfUnused unmaps. The table's lock is held, or nobody else has the region.
func (r *region) endIfUnused() {
	if !r.removed || r.uses > 0 {
		return
	}
	r.known.Release()
	unmap(r.whole)
	r.h.giveBack(int64(len(r.mem)))
}

// Close ends all regions, each when its last use has ended.
func (t *Table) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for id := range t.regions {
		t.removeLocked(id)
	}
}

// Resolve returns the memory that "region:offset:length[,…]" names, which stays
// mapped until release is called, once. The error is a sentence for the peer.
func (t *Table) Resolve(text []byte) (spans [][]byte, release func(), err error) {
	list, err := ParseSpans(text)
	if err != nil {
		return nil, nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	used := make([]*region, 0, 1)
	spans = make([][]byte, len(list))
	for i, s := range list {
		r := t.regions[s.Region]
		if r == nil {
			t.unuseLocked(used)
			return nil, nil, fmt.Errorf("%w: region %d is not registered on this connection", ErrSpans, s.Region)
		}
		size := int64(len(r.mem))
		if s.Offset > size || s.Length > size-s.Offset {
			t.unuseLocked(used)
			return nil, nil, fmt.Errorf("%w: %d bytes at %d of region %d, which has %d", ErrSpans, s.Length, s.Offset, s.Region, size)
		}
		spans[i] = r.mem[s.Offset : s.Offset+s.Length : s.Offset+s.Length]
		if len(used) == 0 || used[len(used)-1] != r {
			r.uses++
			used = append(used, r)
		}
	}
	var once sync.Once
	return spans, func() { once.Do(func() { t.unuse(used) }) }, nil
}

// InUse reports whether somebody uses memory of the table.
func (t *Table) InUse() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.regions {
		if r.uses > 0 {
			return true
		}
	}
	return false
}

func (t *Table) unuse(used []*region) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.unuseLocked(used)
}

func (t *Table) unuseLocked(used []*region) {
	for _, r := range used {
		r.uses--
		r.endIfUnused()
	}
}
