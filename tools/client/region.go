package client

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// Region is memory that the server shares: what a put finds there it copies
// from there, and a get with GetOptions.WaitForDevice is read right into it.
type Region struct {
	c        *Client
	mem      []byte
	file     *os.File // our own descriptor of it
	mapped   bool     // mem is ours to unmap
	lost     atomic.Bool
	released atomic.Bool
	ending   sync.Once
}

// RegisterMemory shares memory with the server: p maps the file fd from its
// beginning with MAP_SHARED, a memfd or a file on a tmpfs that belongs to the
// user of this process or of the server, open for reading and writing. The file
// and the mapping stay the caller's, and must stay as they are until Release.
//
// Only a client of a Unix socket can share memory.
func (c *Client) RegisterMemory(p []byte, fd int) (*Region, error) {
	file, err := duplicate(fd)
	if err != nil {
		return nil, fmt.Errorf("client: region: %w", err)
	}
	return c.register(&Region{c: c, mem: p, file: file})
}

// NewRegion makes memory that is shared with the server, of a memfd that nobody
// can cut short.
func (c *Client) NewRegion(sizeBytes int64) (*Region, error) {
	if sizeBytes <= 0 || sizeBytes > math.MaxInt {
		return nil, fmt.Errorf("client: region of %d bytes", sizeBytes)
	}
	file, mem, err := newShared(sizeBytes)
	if err != nil {
		return nil, fmt.Errorf("client: region of %d bytes: %w", sizeBytes, err)
	}
	return c.register(&Region{c: c, mem: mem, file: file, mapped: true})
}

// register makes a region known, or ends it: also where the server has it
// already, which would keep it mapped as long as the connection lasts.
func (c *Client) register(r *Region) (*Region, error) {
	if err := c.tryRegister(r); err != nil {
		r.end()
		c.pool.forgetIdle()
		return nil, err
	}
	return r, nil
}

// tryRegister tells the server on one connection, to hear what it says of the
// file; others follow as they need it.
func (c *Client) tryRegister(r *Region) error {
	if len(r.mem) == 0 {
		return fmt.Errorf("client: region of no bytes")
	}
	if !c.unix {
		return fmt.Errorf("client: region: memory is shared over a Unix socket only; dial unix:PATH")
	}
	ctx, cancel := c.bounded(context.Background())
	defer cancel()
	err := c.pool.with(ctx, c.pool.idle, true, func(conn *conn) error {
		_, err := conn.regionID(ctx, r)
		return err
	})
	if err != nil {
		return fmt.Errorf("client: region of %d bytes: %w", len(r.mem), err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.regions.add(r) {
		return fmt.Errorf("client: region: some of the memory is registered already")
	}
	return nil
}

// Bytes is the memory; nil after Release.
func (r *Region) Bytes() []byte {
	if r.released.Load() {
		return nil
	}
	return r.mem
}

// Lost reports that the server did not let go of the memory in time, see
// Options.LingerMax.
func (r *Region) Lost() bool { return r.lost.Load() }

// Release ends the region. No call may use it any more. Releasing twice is
// nothing.
func (r *Region) Release() {
	r.c.mu.Lock()
	r.c.regions.remove(r)
	r.c.mu.Unlock()
	r.end()
	r.c.pool.forgetIdle()
}

func (r *Region) end() {
	r.ending.Do(func() {
		r.released.Store(true)
		_ = r.file.Close()
		if r.mapped {
			unmapShared(r.mem)
		}
	})
}

// forgetIdle ends released regions on connections that nobody has; the others
// do so when they come back.
func (p *pool) forgetIdle() {
	for range cap(p.idle) {
		select {
		case s := <-p.idle:
			p.give(p.idle, s)
		default:
			return
		}
	}
}

// forgetTimeout bounds how long the end of a region waits for the server.
const forgetTimeout = 2 * time.Second

// forgetRegions ends those regions at the server that were released here.
func (c *conn) forgetRegions() {
	for r, id := range c.regions {
		if !r.released.Load() || c.spent {
			continue
		}
		delete(c.regions, r)
		cmd := newCommand("KV.UNREGION")
		cmd.int(id)
		_ = c.doUntil(time.Now().Add(forgetTimeout), cmd, func(a *answers) error {
			_, err := a.int()
			return err
		})
	}
}

// regionID is what the server calls a region on this connection.
func (c *conn) regionID(ctx context.Context, r *Region) (int64, error) {
	if id, ok := c.regions[r]; ok {
		return id, nil
	}
	cmd := newCommand("KV.REGION")
	cmd.int(int64(len(r.mem)))
	var id int64
	err := c.doWithFile(ctx, cmd, r.file, func(a *answers) (err error) {
		id, err = a.int()
		return err
	})
	if err != nil {
		return 0, err
	}
	c.regions[r] = id
	return id, nil
}

// regionMap finds regions by address.
type regionMap struct{ list []*Region }

func addressOf(p []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(p))) }

func (m *regionMap) find(at uintptr) (int, bool) {
	return slices.BinarySearchFunc(m.list, at, func(r *Region, at uintptr) int { return cmp.Compare(addressOf(r.mem), at) })
}

func (m *regionMap) add(r *Region) bool {
	from := addressOf(r.mem)
	at, found := m.find(from)
	if found || at > 0 && m.list[at-1].contains(from) || at < len(m.list) && r.contains(addressOf(m.list[at].mem)) {
		return false
	}
	m.list = slices.Insert(m.list, at, r)
	return true
}

func (m *regionMap) remove(r *Region) {
	if at, ok := m.find(addressOf(r.mem)); ok && m.list[at] == r {
		m.list = slices.Delete(m.list, at, at+1)
	}
}

func (m *regionMap) all() []*Region { return slices.Clone(m.list) }

func (r *Region) contains(at uintptr) bool {
	from := addressOf(r.mem)
	return at >= from && at-from < uintptr(len(r.mem))
}

// of returns the region that holds all of p, and where in it p begins.
func (m *regionMap) of(p []byte) (r *Region, offset int64) {
	from := addressOf(p)
	at, ok := m.find(from)
	if !ok {
		at--
	}
	if len(p) == 0 || at < 0 || !m.list[at].contains(from) || !m.list[at].contains(from+uintptr(len(p)-1)) {
		return nil, 0
	}
	return m.list[at], int64(from - addressOf(m.list[at].mem))
}
