package disk

import "github.com/sealstone/sealstone/internal/vfs"

// What goes through the page cache shall not fill it: a store is larger than
// memory, reads a block once in a long while, and shares the host.
const (
	// cacheDropMin is the least I/O behind which the cache is tidied up:
	// below it the calls cost more than the pages are worth.
	cacheDropMin = 64 << 10
	// writeBehindBytes is how much of a file that is being appended to may
	// stay cached: the device is to write it meanwhile.
	writeBehindBytes = 8 << 20
	// sweepBytes is how far behind that pages are dropped again, which the
	// device had not written the last time.
	sweepBytes = 64 << 20
)

// tidyRead forgets what was just read. Both calls here are hints: what the
// kernel makes of them changes no answer.
func tidyRead(f vfs.File, off int64, length int) {
	if length >= cacheDropMin {
		_ = f.DropCache(off, int64(length))
	}
}

// tidyWrite lets the device begin with what was just written, and forgets
// what lies some way behind it. A page that is still dirty stays.
func tidyWrite(f vfs.File, off int64, length int) {
	if length < cacheDropMin {
		return
	}
	_ = f.StartWriteback(off, int64(length))
	if to := off - writeBehindBytes; to > 0 {
		from := max(to-sweepBytes, 0)
		_ = f.DropCache(from, to-from)
	}
}
