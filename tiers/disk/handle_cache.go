package disk

import (
	"container/list"
	"errors"
	"fmt"
	"sync"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// fileCache bounds the open descriptors of a volume. Files in use are never
// closed; idle ones are kept open, and the longest idle goes first when room
// is needed. With all room in use nothing waits: the answer is tiers.ErrBusy.
type fileCache struct {
	mu     sync.Mutex
	limit  int
	open   int        // descriptors open or reserved
	idle   *list.List // of *cachedFile, the longest idle first
	closed bool
}

// cachedFile is the one or two descriptors of one file, shared by its users.
type cachedFile struct {
	name  string
	width int // most descriptors that opener returns
	// opener opens the file; called without locks held.
	opener func() (buffered, direct vfs.File, err error)

	// Guarded by fileCache.mu.
	buffered, direct vfs.File
	opened           int           // descriptors really open
	refs             int           // users
	opening          chan struct{} // closed when the opening under way ended
	dead             bool          // no new user; closed with the last
	place            *list.Element // in idle
	onGone           func()        // called once, without locks, when dead and closed
}

func newFileCache(limit int) *fileCache {
	return &fileCache{limit: limit, idle: list.New()}
}

// acquire opens f unless it is open and counts a user.
func (c *fileCache) acquire(f *cachedFile) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		if c.closed {
			return tiers.ErrClosed
		}
		if f.dead {
			return ErrNoSegment
		}
		if f.buffered != nil {
			c.use(f)
			return nil
		}
		if f.opening == nil {
			break
		}
		ch := f.opening
		c.mu.Unlock()
		<-ch
		c.mu.Lock()
	}
	return c.openLocked(f)
}

// openLocked opens f with its first user. It lets go of the lock meanwhile;
// the opening itself counts as a use, so that a file retired meanwhile is not
// taken for closed too early.
func (c *fileCache) openLocked(f *cachedFile) error {
	if err := c.reserveLocked(f.width); err != nil {
		return fmt.Errorf("open %s: %w", f.name, err)
	}
	f.refs++
	f.opening = make(chan struct{})
	c.mu.Unlock()
	buffered, direct, err := f.opener()
	c.mu.Lock()
	close(f.opening)
	f.opening = nil
	if err == nil {
		f.buffered, f.direct, f.opened = buffered, direct, 1
		if direct != nil {
			f.opened++
		}
	}
	c.open -= f.width - f.opened
	switch {
	case err == nil && f.dead:
		err = ErrNoSegment
	case err == nil && c.closed:
		err = tiers.ErrClosed
	case err == nil:
		return nil
	}
	f.refs--
	if f.refs == 0 && (f.dead || c.closed) {
		err = errors.Join(err, c.closeUnlock(f))
		c.mu.Lock()
	}
	return err
}

func (c *fileCache) use(f *cachedFile) {
	f.refs++
	if f.place != nil {
		c.idle.Remove(f.place)
		f.place = nil
	}
}

// release ends one use. The last use of a dead file closes it.
func (c *fileCache) release(f *cachedFile) error {
	c.mu.Lock()
	f.refs--
	if f.refs > 0 {
		c.mu.Unlock()
		return nil
	}
	if !f.dead && !c.closed {
		f.place = c.idle.PushBack(f)
		c.mu.Unlock()
		return nil
	}
	return c.closeUnlock(f)
}

// retire lets no new user in. The file is closed, and onGone called, when the
// last user has left: here and now if there is none.
func (c *fileCache) retire(f *cachedFile, onGone func()) error {
	c.mu.Lock()
	if f.dead {
		c.mu.Unlock()
		return nil
	}
	f.dead, f.onGone = true, onGone
	if f.refs > 0 {
		c.mu.Unlock()
		return nil
	}
	c.forgetIdle(f)
	return c.closeUnlock(f)
}

// closeUnlock closes the unused file f and lets go of the lock first, since
// the last close of an unlinked file frees its blocks.
func (c *fileCache) closeUnlock(f *cachedFile) error {
	buffered, direct, gone := f.buffered, f.direct, f.onGone
	f.buffered, f.direct, f.onGone = nil, nil, nil
	width := f.opened
	f.opened = 0
	c.mu.Unlock()
	err := closeAll(buffered, direct)
	if gone != nil {
		gone()
	}
	c.unreserve(width)
	return err
}

// reopen closes a file that nobody uses, so that its next user opens what
// has its name then.
func (c *fileCache) reopen(f *cachedFile) {
	c.mu.Lock()
	c.forgetIdle(f)
	buffered, direct, width := f.buffered, f.direct, f.opened
	f.buffered, f.direct, f.opened = nil, nil, 0
	c.mu.Unlock()
	_ = closeAll(buffered, direct) // they failed, or have nothing to lose
	c.unreserve(width)             // not before: the limit counts what is open
}

func (c *fileCache) forgetIdle(f *cachedFile) {
	if f.place != nil {
		c.idle.Remove(f.place)
		f.place = nil
	}
}

// reserve takes room for n descriptors that the caller opens itself.
func (c *fileCache) reserve(n int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return tiers.ErrClosed
	}
	return c.reserveLocked(n)
}

func (c *fileCache) reserveLocked(n int) error {
	for c.open+n > c.limit {
		e := c.idle.Front()
		if e == nil {
			return fmt.Errorf("%d of %d files are open and in use: %w", c.open, c.limit, tiers.ErrBusy)
		}
		f := e.Value.(*cachedFile)
		c.forgetIdle(f)
		c.open -= f.opened
		// Files that are read, or written with a sync behind each write,
		// have nothing to lose in a failed close.
		_ = closeAll(f.buffered, f.direct)
		f.buffered, f.direct, f.opened = nil, nil, 0
	}
	c.open += n
	return nil
}

func (c *fileCache) unreserve(n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open -= n
}

// close closes the idle files and lets no new user in. Files in use are
// closed by their last user; inUse is how many descriptors that are.
func (c *fileCache) close() (inUse int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for e := c.idle.Front(); e != nil; e = c.idle.Front() {
		f := e.Value.(*cachedFile)
		c.forgetIdle(f)
		c.open -= f.opened
		err = errors.Join(err, closeAll(f.buffered, f.direct))
		f.buffered, f.direct, f.opened = nil, nil, 0
	}
	return c.open, err
}

func closeAll(files ...vfs.File) error {
	var err error
	for _, f := range files {
		if f != nil {
			err = errors.Join(err, f.Close())
		}
	}
	return err
}
