package disk

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// write moves the bytes of a request to its file: past the page cache where
// spans and file allow it, else through it.
//
// A refusal is remembered only once the other way has worked: EPERM of a file
// that nobody may write to says nothing about direct I/O.
func (p *PreadReader) write(r *request) (tiers.Path, error) {
	var refused error
	if f := p.directWriter(r); f != nil {
		err := writeSpans(f, r.spans, r.offset, true)
		if !isRefusal(err) {
			return tiers.PathDirect, err
		}
		refused = err
	}
	f := r.file.File(false)
	if f == nil {
		return tiers.PathNone, fmt.Errorf("file is not open: %w", tiers.ErrInvalid)
	}
	if err := writeSpans(f, r.spans, r.offset, false); err != nil {
		return tiers.PathNone, err
	}
	tidyWrite(f, r.offset, r.length)
	if refused != nil {
		refuse(&p.refusalW, refused)
	}
	return tiers.PathBuffered, nil
}

// directWriter is the descriptor for a write past the page cache, or nil if
// the spans do not suit one or the file has none.
func (p *PreadReader) directWriter(r *request) vfs.File {
	if p.buffered || p.refusalW.Load() != nil || !r.suitable || r.length%directAlignBytes != 0 {
		return nil
	}
	return r.file.File(true)
}

// writeSpans writes the spans one behind the other from off on.
func writeSpans(f vfs.File, spans [][]byte, off int64, direct bool) error {
	for _, s := range spans {
		if err := writeAll(f, s, off, direct); err != nil {
			return err
		}
		off += int64(len(s))
	}
	return nil
}

// writeAll writes all of p at off. Short writes and interruptions are
// continued, a bounded number of times without progress. Direct I/O can only
// go on at a block: what was written of a broken one is written again.
func writeAll(f vfs.File, p []byte, off int64, direct bool) error {
	done, idle := 0, 0
	for done < len(p) {
		n, err := f.WriteAt(p[done:], off+int64(done))
		to := done + max(n, 0)
		if direct && to < len(p) {
			to &^= directAlignBytes - 1
		}
		if to > done {
			done, idle = to, 0
			if err == nil {
				continue
			}
		}
		switch {
		case err == nil:
			err = io.ErrShortWrite
		case !errors.Is(err, syscall.EINTR) && !errors.Is(err, syscall.EAGAIN) && !errors.Is(err, io.ErrShortWrite):
			return err
		}
		if idle++; idle > maxTransientRetries {
			return err
		}
		runtime.Gosched()
	}
	return nil
}
