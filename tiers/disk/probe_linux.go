package disk

import (
	"context"

	"golang.org/x/sys/unix"

	"github.com/sealstone/sealstone/internal/vfs"
)

// lookIntoCache finds out whether direct I/O really goes past the page cache.
// Reads that do not are refused: the store would fill a cache that it
// believes empty, where the buffered path bounds it. Writes are only noted.
func (p *prober) lookIntoCache(context.Context) {
	if !p.r.Proven(PathPread) || p.file.buffered.Fd() == vfs.InvalidFd || p.r.Filesystem.Memory {
		return
	}
	f := p.file
	off, length := int64(directPart+PageBytes), int64(partBytes-PageBytes)
	if f.readOnly {
		off, length = 0, PageBytes
	}
	if !p.emptyCache(off, length) {
		return
	}
	if err := p.trial.read(f.direct, off, int(length), PageBytes); err != nil {
		p.refuse(PathPread, doing("direct read", err))
		return
	}
	if pagesCached(f.buffered, off, length) > 0 {
		p.r.Direct.ReadsCached = true
		p.refuseFor(PathPread, "O_DIRECT is accepted, and reads go through the page cache all the same", "")
		return
	}
	if f.readOnly || !p.emptyCache(off, length) || p.trial.write(f.direct, off, int(length), PageBytes) != nil {
		return
	}
	if pagesCached(f.buffered, off, length) > 0 {
		p.r.Direct.WritesCached = true
		p.note("direct writes go through the page cache on this file system (btrfs with checksums does so); direct reads do not")
	}
}

// emptyCache syncs and drops the pages of a range; false where some stay, or
// nobody can tell.
func (p *prober) emptyCache(off, length int64) bool {
	f := p.file.buffered
	if !p.file.readOnly {
		if err := f.Datasync(); err != nil {
			return false
		}
	}
	return f.DropCache(off, length) == nil && pagesCached(f, off, length) == 0
}

// pagesCached is how many pages of a range the page cache holds, or -1 where
// the kernel does not tell (cachestat(2), Linux 6.5).
func pagesCached(f vfs.File, off, length int64) int64 {
	var st unix.Cachestat_t
	r := unix.CachestatRange{Off: uint64(off), Len: uint64(length)}
	if err := unix.Cachestat(uint(f.Fd()), &r, &st, 0); err != nil {
		return -1
	}
	return int64(st.Cache)
}
