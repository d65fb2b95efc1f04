package resp

import (
	"bytes"
	"io"
)

// Reader reads the commands of one connection.
type Reader struct {
	src    io.Reader
	mem    Memory
	limits Limits
	before func(frameBytes int64) error

	buf     []byte // buf[at:end] came and is not used yet
	at, end int
	scanned int // of buf[at:end], without an end of line

	frameBytes int64 // of the frame under way, Between outside of one
	cmd        Command
	arena      []byte // what small arguments of the command are copied to
	smallBytes int64
	heldBytes  int64 // of all arguments kept
	charged    int64
	values     []Buffer

	ahead ahead
}

// Between is what Reader's hook is given when no frame is under way.
const Between = -1

// NewReader reads from src. Before each read of src, before is called with
// how many bytes of the frame under way came so far, or Between; its error
// ends Next.
func NewReader(src io.Reader, mem Memory, l Limits, before func(frameBytes int64) error) *Reader {
	return &Reader{src: src, mem: mem, limits: l, before: before, buf: make([]byte, bufferBytes), frameBytes: Between}
}

// SetLimits holds from the next command on.
func (r *Reader) SetLimits(l Limits) { r.limits = l }

// Next reads a command. Errors: io.EOF between two frames,
// io.ErrUnexpectedEOF within one, *ProtocolError, those of the source and of
// the hook.
func (r *Reader) Next() (*Command, error) {
	for {
		r.Release()
		if r.at == r.end {
			if err := r.fill(); err != nil {
				return nil, err
			}
		}
		r.frameBytes = int64(r.end - r.at)
		err := r.frame()
		r.frameBytes = Between
		if err != nil {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if len(r.cmd.Args) > 0 {
			return &r.cmd, nil
		}
	}
}

// Release gives back the memory of the command that Next returned.
func (r *Reader) Release() {
	for i, b := range r.values {
		b.Free()
		r.values[i] = nil
	}
	if r.charged > 0 {
		r.mem.Refund(r.charged)
		r.arena = nil
	}
	if cap(r.cmd.Args) > freeArgs {
		r.cmd.Args = nil
	}
	r.cmd = Command{Args: r.cmd.Args[:0]}
	r.arena, r.values = r.arena[:0], r.values[:0]
	r.smallBytes, r.heldBytes, r.charged = 0, 0, 0
}

func (r *Reader) frame() error {
	if r.buf[r.at] == '*' {
		return r.array()
	}
	return r.inline()
}

func (r *Reader) array() error {
	line, err := r.line()
	if err != nil {
		return err
	}
	n, ok := parseInt(line[1:])
	if !ok || n > int64(r.limits.ArgsMax) {
		return malformed("invalid multibulk length")
	}
	for range max(n, 0) {
		if err := r.bulk(); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) bulk() error {
	line, err := r.line()
	if err != nil {
		return err
	}
	if len(line) == 0 || line[0] != '$' {
		return malformed("expected '$', got '%s'", printable(line))
	}
	n, ok := parseInt(line[1:])
	if !ok || n < 0 || n > BulkBytesMax {
		return malformed("invalid bulk length")
	}
	if reason := r.admit(n); reason != 0 {
		return r.lose(n, reason)
	}
	if n <= SmallBytesMax {
		return r.small(int(n))
	}
	return r.large(int(n))
}

// admit decides whether an argument of n bytes is kept.
func (r *Reader) admit(n int64) Reason {
	switch {
	case n > r.limits.ValueBytesMax:
		return ReasonValueBytes
	case r.heldBytes+n > r.limits.CommandBytesMax:
		return ReasonCommandBytes
	}
	small := r.smallBytes
	if n <= SmallBytesMax {
		small += n
	}
	if r.cmd.Cut > 0 || !r.charge(small, len(r.cmd.Args)+1+len(r.cmd.Lost)) {
		return ReasonMemory
	}
	r.smallBytes = small
	return 0
}

// charge accounts for what small arguments and the list of all take beyond
// what every connection has.
func (r *Reader) charge(smallBytes int64, args int) bool {
	need := max(smallBytes-freeSmallBytes, 0) + int64(max(args-freeArgs, 0))*argBytes
	if need <= r.charged {
		return true
	}
	more := (need - r.charged + chargeStep - 1) / chargeStep * chargeStep
	if !r.mem.Charge(more) {
		return false
	}
	r.charged += more
	return true
}

// lose reads an argument and forgets it.
func (r *Reader) lose(n int64, why Reason) error {
	if r.limits.Strict {
		return malformed("invalid bulk length")
	}
	if r.cmd.Cut > 0 || !r.charge(r.smallBytes, len(r.cmd.Args)+1+len(r.cmd.Lost)) {
		r.cmd.Cut++
	} else {
		r.cmd.Lost = append(r.cmd.Lost, Lost{Arg: len(r.cmd.Args), Bytes: n, Reason: why})
		r.cmd.Args = append(r.cmd.Args, nil)
	}
	for left := n; left > 0; {
		if r.at == r.end {
			if err := r.fill(); err != nil {
				return err
			}
		}
		took := min(left, int64(r.end-r.at))
		r.at += int(took)
		left -= took
	}
	return r.lineEnd()
}

// small copies an argument out of the read buffer.
func (r *Reader) small(n int) error {
	for r.end-r.at < n+2 {
		if err := r.fill(); err != nil {
			return err
		}
	}
	from := len(r.arena)
	r.arena = append(r.arena, r.buf[r.at:r.at+n]...)
	r.at += n
	r.keep(r.arena[from:len(r.arena):len(r.arena)])
	return r.lineEnd()
}

// large reads an argument, and the end of line after it, into memory of its
// own: what came already is copied, the rest is not.
func (r *Reader) large(n int) error {
	b := r.mem.Take(n+2, len(r.values) > 0)
	if b == nil {
		return r.lose(int64(n), ReasonMemory)
	}
	r.values = append(r.values, b)
	p := b.Bytes()
	have := copy(p, r.buf[r.at:r.end])
	r.at += have
	for have < len(p) {
		if err := r.before(r.frameBytes); err != nil {
			return err
		}
		k, err := r.read(p[have:])
		have += k
		r.frameBytes += int64(k)
		if err != nil && have < len(p) {
			return err
		}
	}
	if p[n] != '\r' || p[n+1] != '\n' {
		return malformed("expected the end of a line after %d bytes", n)
	}
	r.keep(p[:n:n])
	return nil
}

func (r *Reader) keep(p []byte) {
	r.cmd.Args = append(r.cmd.Args, p)
	r.heldBytes += int64(len(p))
}

func (r *Reader) lineEnd() error {
	for r.end-r.at < 2 {
		if err := r.fill(); err != nil {
			return err
		}
	}
	if r.buf[r.at] != '\r' || r.buf[r.at+1] != '\n' {
		return malformed("expected the end of a line after an argument")
	}
	r.at += 2
	return nil
}

// line reads up to the end of a line, which it leaves out. The slice is good
// until the next read.
func (r *Reader) line() ([]byte, error) {
	for {
		if i := bytes.IndexByte(r.buf[r.at+r.scanned:r.end], '\n'); i >= 0 {
			line := r.buf[r.at : r.at+r.scanned+i]
			r.at += len(line) + 1
			r.scanned = 0
			return bytes.TrimSuffix(line, []byte{'\r'}), nil
		}
		r.scanned = r.end - r.at
		if r.scanned == len(r.buf) {
			return nil, malformed("too long a line")
		}
		if err := r.fill(); err != nil {
			return nil, err
		}
	}
}

// fill reads once from the source into the buffer.
func (r *Reader) fill() error {
	if r.at == r.end {
		r.at, r.end = 0, 0
	} else if r.end == len(r.buf) {
		r.end = copy(r.buf, r.buf[r.at:r.end])
		r.at = 0
	}
	if err := r.before(r.frameBytes); err != nil {
		return err
	}
	n, err := r.read(r.buf[r.end:])
	r.end += n
	if r.frameBytes != Between {
		r.frameBytes += int64(n)
	}
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}
