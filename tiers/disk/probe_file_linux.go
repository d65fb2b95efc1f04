package disk

import (
	"context"
	"errors"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sealstone/sealstone/internal/vfs"
)

const (
	// filePart is where preallocation and holes are tried: behind the image,
	// a hole, then preallocated space.
	holePart     = imageBytes
	preallocPart = 2 * imageBytes
	syncRounds   = 5
)

// tryFile finds out what preallocation and holes are worth here.
func (p *prober) tryFile(context.Context) {
	if p.file == nil || p.file.readOnly || p.file.buffered.Fd() == vfs.InvalidFd {
		return
	}
	p.r.File.DropsCache = p.file.buffered.DropCache(0, partBytes) == nil
	fd := int(p.file.buffered.Fd())
	p.r.File.StartsWriteback = p.file.buffered.StartWriteback(0, partBytes) == nil
	p.tryPreallocation(fd)
	p.tryHoles(fd)
}

// tryPreallocation reserves space and writes into it. The fallback of
// vfs.File.Preallocate, which only extends the file, would hide the answer.
func (p *prober) tryPreallocation(fd int) {
	f := p.file.buffered
	before, err := allocatedBytes(f)
	if err != nil {
		return
	}
	if err := unix.Fallocate(fd, 0, preallocPart, imageBytes); err != nil {
		p.note("fallocate is refused (%v): segments are not preallocated here", err)
		return
	}
	held, err := allocatedBytes(f)
	if err != nil {
		return
	}
	p.r.File.Preallocates = held-before >= imageBytes
	if !p.r.File.Preallocates {
		p.note("fallocate is accepted and reserves nothing: a write into a preallocated segment may still find the disk full")
		return
	}
	page := p.trial.source(partBytes, maxAlignBytes)
	if _, err := f.WriteAt(page, preallocPart); err != nil {
		return
	}
	if err := f.Datasync(); err != nil {
		return
	}
	after, err := allocatedBytes(f)
	// A tree of extents may take another block when a part of it is written.
	p.r.File.PreallocationKept = err == nil && after-held < partBytes
}

// allocatedBytes is what the file holds on disk, after everything delayed was
// allocated.
func allocatedBytes(f vfs.File) (int64, error) {
	if err := f.Sync(); err != nil {
		return 0, err
	}
	info, err := f.Stat()
	return info.AllocatedBytes, err
}

// tryHoles reads between the image and the preallocated space, where nothing
// was ever written.
func (p *prober) tryHoles(fd int) {
	clean := func(f vfs.File) bool {
		dst := p.trial.target(partBytes, PageBytes)
		fillBytes(dst, guardByte)
		err := readFull(f, [][]byte{dst}, holePart, partBytes, true)
		return err == nil && allBytes(dst, 0)
	}
	if info, err := p.file.buffered.Stat(); err != nil || info.SizeBytes < holePart+partBytes {
		if err := p.file.buffered.Truncate(holePart + partBytes); err != nil {
			return
		}
	}
	p.r.File.HolesReadZero = clean(p.file.buffered)
	if p.r.Proven(PathPread) {
		p.r.File.HolesReadZero = p.r.File.HolesReadZero && clean(p.file.direct)
	}
	if !p.r.File.HolesReadZero {
		p.warn("a hole in a file does not read as zeros: do not trust this file system with a store")
	}
	at, err := unix.Seek(fd, holePart, unix.SEEK_DATA)
	p.r.File.FindsHoles = err == nil && at > holePart || errors.Is(err, unix.ENXIO)
}

// timeSync measures fdatasync after small writes, the median of a few.
func (p *prober) timeSync(ctx context.Context) {
	if p.file == nil || p.file.readOnly || p.file.buffered.Fd() == vfs.InvalidFd {
		return
	}
	var took []time.Duration
	for range syncRounds {
		if ctx.Err() != nil {
			return
		}
		if p.trial.write(p.file.buffered, bufferedPart, PageBytes, PageBytes) != nil {
			return
		}
		start := time.Now()
		if p.file.buffered.Datasync() != nil {
			return
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	p.r.File.SyncUs = float64(took[len(took)/2].Nanoseconds()) / 1000
}
