package resp

import (
	"errors"
	"os"
)

// aheadChunk is the unit in which input is read ahead.
const aheadChunk = chargeStep

// ahead is input that was read before its turn.
type ahead struct {
	chunks [][]byte
	err    error // what ended the source, once chunks are used up
}

// ReadAhead reads what has come into memory of its own: for a peer that reads
// no answers before it has sent all of its commands. It returns when the
// source fails, as by a deadline that is moved for it, at about maxBytes, or
// where Memory has no room. Nothing else may be called meanwhile.
func (r *Reader) ReadAhead(maxBytes int64) {
	a := &r.ahead
	for int64(len(a.chunks)) < maxBytes/aheadChunk && a.err == nil {
		last := len(a.chunks) - 1
		if last < 0 || len(a.chunks[last]) == cap(a.chunks[last]) {
			if !r.mem.Charge(aheadChunk) {
				return
			}
			a.chunks = append(a.chunks, make([]byte, 0, aheadChunk))
			last++
		}
		p := a.chunks[last]
		n, err := r.src.Read(p[len(p):cap(p)])
		a.chunks[last] = p[:len(p)+n]
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		a.err = err
	}
}

// read reads from what was read ahead, then from the source.
func (r *Reader) read(p []byte) (int, error) {
	a := &r.ahead
	for len(a.chunks) > 0 {
		n := copy(p, a.chunks[0])
		if a.chunks[0] = a.chunks[0][n:]; len(a.chunks[0]) == 0 {
			a.chunks[0] = nil
			a.chunks = a.chunks[1:]
			r.mem.Refund(aheadChunk)
		}
		if n > 0 {
			return n, nil
		}
	}
	if a.err != nil {
		return 0, a.err
	}
	return r.src.Read(p)
}

// Close gives back all memory; Next must not be called any more.
func (r *Reader) Close() {
	r.Release()
	for range r.ahead.chunks {
		r.mem.Refund(aheadChunk)
	}
	r.ahead.chunks = nil
}
