package disk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"syscall"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/memguard"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// outcome of the I/O of one request. With buf set the bytes lie in data, a
// part of it, and are still to be copied; else they are in the spans.
type outcome struct {
	buf  *aligned.Buffer
	data []byte
	path tiers.Path
	err  error
}

// serve does one request from start to answer. The buffer and the file go
// back before the answer is given, so that whoever waits for the answer finds
// them returned.
func (p *PreadReader) serve(r *request) {
	if !r.start() {
		return
	}
	if r.b.write {
		path, err := p.write(r)
		r.file.Release()
		r.finish(path, err)
		return
	}
	r.deliver(p.read(r))
}

// deliver brings the outcome of a read to the spans, if they may still be
// touched, gives buffer and file back, and answers.
func (r *request) deliver(out outcome) {
	claimed := r.claim()
	if claimed {
		switch {
		case out.err != nil && r.pinned:
			// A read may have left parts of the file there, or failed because
			// the memory is not there any more.
			memguard.Clear(r.spans)
		case out.err == nil && out.buf != nil:
			if out.err = scatter(r.spans, out.data); out.err != nil {
				memguard.Clear(r.spans)
			}
		}
	}
	if out.buf != nil {
		out.buf.Free()
	}
	r.file.Release()
	if claimed {
		r.finish(out.path, out.err)
	}
}

// read moves the bytes: past the page cache where the file allows it and
// nobody refused yet, else through it.
func (p *PreadReader) read(r *request) outcome {
	if r.b.ctx.Err() != nil && !r.pinned {
		return outcome{err: abandoned(r.b.ctx)}
	}
	if f := p.directReader(r); f != nil {
		out := p.readDirect(r, f)
		if !isRefusal(out.err) {
			return out
		}
		refuse(&p.refusal, out.err)
	}
	f := r.file.File(false)
	if f == nil {
		return outcome{err: fmt.Errorf("file is not open: %w", tiers.ErrInvalid)}
	}
	defer tidyRead(f, r.offset, r.length)
	if r.pinned {
		return outcome{path: tiers.PathBuffered, err: readFull(f, r.spans, r.offset, r.length, false)}
	}
	return p.bounce(r.b.ctx, f, r.offset, r.length, tiers.PathBufferedBounce)
}

// directReader is the descriptor for a read past the page cache, or nil.
func (p *PreadReader) directReader(r *request) vfs.File {
	if p.buffered || p.refusal.Load() != nil {
		return nil
	}
	return r.file.File(true)
}

func (p *PreadReader) readDirect(r *request, f vfs.File) outcome {
	if !r.pinned || !r.suitable {
		return p.bounce(r.b.ctx, f, r.offset, r.length, tiers.PathDirectBounce)
	}
	head := r.length &^ (directAlignBytes - 1)
	if head == r.length {
		return outcome{path: tiers.PathDirect, err: readFull(f, r.spans, r.offset, head, true)}
	}
	if head > 0 {
		if err := readFull(f, cutSpans(r.spans, 0, head), r.offset, head, true); err != nil {
			return outcome{err: err}
		}
	}
	tail := r.length - head
	out := p.bounce(r.b.ctx, f, r.offset+int64(head), tail, tiers.PathDirect)
	if out.err == nil {
		out.err = scatterAt(r.spans, head, out.data)
		out.buf.Free()
	}
	return outcome{path: out.path, err: out.err}
}

// bounce reads whole blocks around the range into a buffer of the pool.
func (p *PreadReader) bounce(ctx context.Context, f vfs.File, off int64, length int, path tiers.Path) outcome {
	from := off &^ (directAlignBytes - 1)
	lead := int(off - from)
	size := (lead + length + directAlignBytes - 1) &^ (directAlignBytes - 1)
	buf, err := p.buffer(ctx, size)
	if err != nil {
		return outcome{err: err}
	}
	direct := path != tiers.PathBufferedBounce
	if err := readFull(f, [][]byte{buf.Bytes()[:size]}, from, lead+length, direct); err != nil {
		buf.Free()
		return outcome{err: err}
	}
	return outcome{buf: buf, data: buf.Bytes()[lead : lead+length], path: path}
}

// buffer takes a buffer from the pool, waiting a bounded time.
func (p *PreadReader) buffer(ctx context.Context, sizeBytes int) (*aligned.Buffer, error) {
	if buf, err := p.pool.TryGet(sizeBytes); err == nil {
		return buf, nil
	} else if errors.Is(err, aligned.ErrTooLarge) {
		return nil, fmt.Errorf("bounce buffer of %d bytes: %w", sizeBytes, err)
	}
	bounded, cancel := context.WithTimeout(ctx, p.poolWaitMax)
	defer cancel()
	buf, err := p.pool.Get(bounded, sizeBytes)
	if err != nil && ctx.Err() != nil {
		return nil, abandoned(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("bounce buffer of %d bytes: %w: %w", sizeBytes, tiers.ErrBusy, err)
	}
	return buf, nil
}

// abandoned is the error of a read whose context ended.
func abandoned(ctx context.Context) error {
	return fmt.Errorf("%w: %w", tiers.ErrAbandoned, context.Cause(ctx))
}

// isRefusal: the system does not do this kind of I/O here. It says nothing
// about the data.
func isRefusal(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.EOPNOTSUPP) ||
		errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.ENOSYS) || errors.Is(err, vfs.ErrDirectUnsupported)
}

// readFull fills bufs from off until at least need bytes are there. Short
// reads and interruptions are continued, a bounded number of times without
// progress; the end of the file before need is io.ErrUnexpectedEOF.
//
// Direct I/O can only go on at a block, so a broken last block is read again;
// when that brings no more, the file ends there.
func readFull(f vfs.File, bufs [][]byte, off int64, need int, direct bool) error {
	done, most, idle := 0, 0, 0
	for {
		rest := bufs
		if done > 0 {
			rest = cutSpans(bufs, done, spansLen(bufs))
		}
		n, err := f.Readv(rest[:min(len(rest), maxSpansPerSyscall)], off+int64(done))
		done += max(n, 0)
		switch {
		case done >= need:
			return nil
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err == nil && (n <= 0 || done <= most):
			return io.ErrUnexpectedEOF
		case err == nil:
			most, idle = done, 0
			if direct {
				done &^= directAlignBytes - 1
			}
		case errors.Is(err, syscall.EINTR), errors.Is(err, syscall.EAGAIN):
			if idle++; idle > maxTransientRetries {
				return err
			}
			runtime.Gosched()
		default:
			return err
		}
	}
}

func spansLen(spans [][]byte) int {
	n := 0
	for _, s := range spans {
		n += len(s)
	}
	return n
}

// cutSpans returns the bytes [from, to) of the spans taken as one.
func cutSpans(spans [][]byte, from, to int) [][]byte {
	out := make([][]byte, 0, len(spans))
	pos := 0
	for _, s := range spans {
		lo, hi := max(from-pos, 0), min(to-pos, len(s))
		if lo < hi {
			out = append(out, s[lo:hi])
		}
		pos += len(s)
	}
	return out
}

// scatter copies data over the spans; both have the same length.
func scatter(spans [][]byte, data []byte) error { return scatterAt(spans, 0, data) }

// scatterAt copies data over the bytes of the spans from offset from on. The
// spans may be gone; the error is then the system's, as if it had copied.
func scatterAt(spans [][]byte, from int, data []byte) error {
	err := memguard.Do(spans, func() {
		for _, s := range spans {
			if from >= len(s) {
				from -= len(s)
				continue
			}
			data = data[copy(s[from:], data):]
			from = 0
		}
	})
	if err != nil {
		return fmt.Errorf("%w: %w", syscall.EFAULT, err)
	}
	return nil
}
