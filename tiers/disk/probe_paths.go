package disk

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/sealstone/sealstone/internal/vfs"
)

// open makes the scratch file and the memory. Where nothing can be written,
// a file that is there is read instead.
func (p *prober) open(context.Context) {
	var err error
	if p.trial, err = newTrial(); err != nil {
		p.refuseAll(fmt.Errorf("memory for the probe: %w", err))
		return
	}
	if p.o.ReadOnly {
		p.openToRead(nil)
		return
	}
	if p.file, err = openScratch(p.o.FS); err != nil {
		p.openToRead(fmt.Errorf("scratch file: %w", err))
	}
}

// openToRead goes on by reading only, for the reason given. What says nothing
// about reading leaves the paths untried if there is nothing to read.
func (p *prober) openToRead(why error) {
	p.file.close()
	p.file = nil
	if why != nil && !cannotWrite(why) {
		p.refuseAll(why)
		return
	}
	p.r.ReadOnly = true
	if why != nil {
		p.note("nothing could be written (%v); the paths were tried by reading only", why)
	}
	f, err := openForReading(p.o.FS)
	if err == nil {
		err = p.trial.learn(f.buffered)
		p.file = f
	}
	if err == nil {
		return
	}
	if why == nil {
		why = err
	}
	for _, name := range PathNames() {
		p.untried(name, why.Error(), errnoName(why))
	}
	p.file.close()
	p.file = nil
}

// learn takes the first page of a file, read through the page cache, for what
// every path must give.
func (t *trial) learn(f vfs.File) error {
	dst := t.target(PageBytes, maxAlignBytes)
	if err := readFull(f, [][]byte{dst}, 0, PageBytes, false); err != nil {
		return err
	}
	copy(t.want, dst)
	return nil
}

func (p *prober) refuseAll(err error) {
	for _, name := range PathNames() {
		p.refuse(name, err)
	}
}

// tryBuffered writes through the page cache, and after a sync and with the
// cache dropped wants the bytes back.
func (p *prober) tryBuffered(context.Context) { p.try(PathBuffered, 1, p.moveBuffered) }

// try proves or refuses a path by what move says. Where move finds no room to
// write, it is asked again to read only.
func (p *prober) try(name PathName, alignBytes int64, move func() error) {
	if p.file == nil {
		return
	}
	err := move()
	// A file that was written to before and may not be now is refused direct
	// I/O, and not writing.
	full := cannotWrite(err) && (name == PathBuffered || !errors.Is(err, fs.ErrPermission))
	if full && !p.file.readOnly {
		if p.openToRead(err); p.file == nil {
			return
		}
		err = move()
	}
	if errors.Is(err, errContent) && p.file.readOnly {
		// The file is not the probe's own: somebody may have written to it.
		if err = p.trial.learn(p.file.buffered); err == nil {
			err = move()
		}
	}
	if err != nil {
		p.refuse(name, err)
		return
	}
	p.prove(name, alignBytes)
}

func (p *prober) moveBuffered() error {
	f := p.file.buffered
	if p.file.readOnly {
		// The page cache is asked twice: before and after it was dropped.
		_ = f.DropCache(0, PageBytes) // a hint
		return doing("buffered read", p.trial.read(f, 0, PageBytes, maxAlignBytes))
	}
	if err := p.trial.write(f, bufferedPart, partBytes, maxAlignBytes); err != nil {
		return fmt.Errorf("buffered write: %w", err)
	}
	if err := f.Datasync(); err != nil {
		return fmt.Errorf("fdatasync: %w", err)
	}
	_ = f.DropCache(bufferedPart, partBytes) // a hint
	return doing("buffered read", p.trial.read(f, bufferedPart, partBytes, maxAlignBytes))
}

// tryDirect writes past the page cache and wants the bytes back both past it
// and through it, and those written through it past it.
func (p *prober) tryDirect(context.Context) { p.try(PathPread, PageBytes, p.moveDirect) }

func (p *prober) moveDirect() error {
	if err := p.file.openDirect(); err != nil {
		return err
	}
	direct, buffered := p.file.direct, p.file.buffered
	if p.file.readOnly {
		return doing("direct read", p.trial.read(direct, 0, PageBytes, PageBytes))
	}
	// A page's alignment and no more, in memory, offset and length: that is
	// what the format has.
	const off, length = directPart + PageBytes, partBytes - PageBytes
	if err := p.trial.write(direct, off, length, PageBytes); err != nil {
		return fmt.Errorf("direct write: %w", err)
	}
	if err := direct.Datasync(); err != nil {
		return fmt.Errorf("fdatasync after a direct write: %w", err)
	}
	if err := p.trial.read(direct, off, length, PageBytes); err != nil {
		return fmt.Errorf("direct read: %w", err)
	}
	if err := p.trial.read(buffered, off, length, PageBytes); err != nil {
		return fmt.Errorf("buffered read of what was written directly: %w", err)
	}
	if p.r.Proven(PathBuffered) {
		return doing("direct read of what was written through the page cache", p.trial.read(direct, bufferedPart, partBytes, PageBytes))
	}
	return nil
}

// doing puts what was done before an error.
func doing(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
