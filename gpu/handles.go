package gpu

import (
	"container/list"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/sealstone/sealstone/gpu/driver"
)

// handleCache keeps files open and registered with cuFile, the ones used last.
type handleCache struct {
	route *Route

	mu     sync.Mutex
	files  map[FileID]*fileHandle
	recent list.List // of *fileHandle, the one used last in front
	closed bool
}

// fileHandle is one file, open a second time by us. Its fields after ready are
// set before ready is closed.
type fileHandle struct {
	id    FileID
	entry *list.Element
	users int
	dead  bool // closed when the last user leaves
	ready chan struct{}

	file   *os.File
	handle driver.Handle
	err    error
}

func (c *handleCache) init(r *Route) {
	c.route = r
	c.files = map[FileID]*fileHandle{}
}

// sharedError is why a file could not be opened for those who waited for it: the
// one who tried counts the failure.
type sharedError struct{ error }

func (e sharedError) Unwrap() error { return e.error }

// use finds the file, or opens it by the caller's descriptor, and keeps it open
// until done is called. Of several callers one opens it.
func (c *handleCache) use(fd int, id FileID) (*fileHandle, error) {
	h, opens := c.find(id)
	if h == nil {
		return nil, ErrClosed
	}
	if opens {
		h.file, h.handle, h.err = c.open(fd, id)
		close(h.ready)
	}
	<-h.ready
	if h.err != nil {
		c.drop(h)
		c.done(h)
		if !opens {
			return nil, sharedError{h.err}
		}
		return nil, h.err
	}
	return h, nil
}

// find takes a use of the file; opens says that the caller must open it.
func (c *handleCache) find(id FileID) (h *fileHandle, opens bool) {
	c.mu.Lock()
	var old *fileHandle
	defer func() {
		c.mu.Unlock()
		c.shut(old)
	}()
	if c.closed {
		return nil, false
	}
	if h = c.files[id]; h != nil {
		h.users++
		c.recent.MoveToFront(h.entry)
		return h, false
	}
	old = c.evict()
	h = &fileHandle{id: id, users: 1, ready: make(chan struct{})}
	h.entry = c.recent.PushFront(h)
	c.files[id] = h
	return h, true
}

// evict takes out the file that was used least recently, where there are as
// many as may be. c.mu is held.
func (c *handleCache) evict() *fileHandle {
	d := c.route.d
	if len(c.files) < d.o.HandlesMax {
		return nil
	}
	for e := c.recent.Back(); e != nil; e = e.Prev() {
		if h := e.Value.(*fileHandle); h.users == 0 {
			c.remove(h)
			d.count.handlesEvicted.Add(1)
			return h
		}
	}
	return nil
}

// remove takes the file out, so that nobody finds it. c.mu is held.
func (c *handleCache) remove(h *fileHandle) {
	h.dead = true
	if c.files[h.id] == h {
		delete(c.files, h.id)
		c.recent.Remove(h.entry)
	}
}

// done ends a use.
func (c *handleCache) done(h *fileHandle) {
	c.mu.Lock()
	h.users--
	last := h.dead && h.users == 0
	c.mu.Unlock()
	if last {
		c.shut(h)
	}
}

// drop has the file closed once its last user leaves.
func (c *handleCache) drop(h *fileHandle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(h)
}

func (c *handleCache) forget(id FileID) {
	c.mu.Lock()
	h := c.files[id]
	idle := false
	if h != nil {
		c.remove(h)
		idle = h.users == 0
	}
	c.mu.Unlock()
	if idle {
		c.shut(h)
	}
}

// open opens the file a second time and registers it.
func (c *handleCache) open(fd int, id FileID) (*os.File, driver.Handle, error) {
	d := c.route.d
	f, err := openDirect(fd, id)
	if err != nil {
		return nil, 0, err
	}
	handle, number := new(driver.Handle), int(f.Fd())
	err = d.fileCall("cuFileHandleRegister", func() (err error) {
		*handle, err = d.files.lib.HandleRegister(d.context, number)
		return err
	})
	switch {
	case err == nil:
		d.count.handlesOpen.Add(1)
		return f, *handle, nil
	case isHung(err), isLost(err):
		// It may be in use by the library: the descriptor stays open.
		d.keep(f)
		return nil, 0, err
	}
	d.count.handleRegisterErrors.Add(1)
	return nil, 0, errors.Join(fmt.Errorf("gpu: registering a file with cuFile: %w", err), f.Close())
}

// shut deregisters and closes the file in the background: the call may hang,
// and nobody waits for it.
func (c *handleCache) shut(h *fileHandle) {
	if h == nil {
		return
	}
	d := c.route.d
	d.closing.Go(func() {
		<-h.ready
		if h.err != nil || h.file == nil {
			return
		}
		// Also on a lost device: a file that is open takes space on the disk.
		returned, err := d.inTime(func() error { return d.files.lib.HandleDeregister(d.context, h.handle) })
		if !returned {
			err = fmt.Errorf("%w: cuFileHandleDeregister within %v", ErrHung, d.o.HangTimeout)
		}
		if err != nil {
			// It may still be in use, so the descriptor stays open; and no more
			// files are opened that could not be closed.
			d.keep(h.file)
			c.route.ban(err)
			return
		}
		_ = h.file.Close() // read only, nothing is lost
		d.count.handlesOpen.Add(-1)
	})
}

// setAside keeps the file open and registered for good.
func (c *handleCache) setAside(h *fileHandle) {
	c.mu.Lock()
	c.remove(h)
	h.users++ // never ended
	c.mu.Unlock()
	c.route.d.keep(h.file)
}

// close closes all files that nobody uses.
func (c *handleCache) close() error {
	c.mu.Lock()
	c.closed = true
	var idle []*fileHandle
	busy := 0
	for _, h := range c.files {
		c.remove(h)
		if h.users > 0 {
			busy++
			continue
		}
		idle = append(idle, h)
	}
	c.mu.Unlock()
	for _, h := range idle {
		c.shut(h)
	}
	if busy > 0 {
		return fmt.Errorf("%w: %d files of %s are in use", ErrLeaked, busy, c.route.Status().Dir)
	}
	return nil
}

// keep holds a descriptor open for the life of the process, since a call that
// did not return may use it: not even the collector may close it.
func (d *Device) keep(f *os.File) {
	kept.mu.Lock()
	defer kept.mu.Unlock()
	kept.files = append(kept.files, f)
	d.count.setAside.Add(1)
}

// kept is what was set aside in this process, at most Options.SetAsideMax and
// the files open at that time for each device.
var kept struct {
	mu    sync.Mutex
	files []*os.File
}
