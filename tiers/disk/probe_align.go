package disk

import (
	"context"
	"fmt"
	"strings"

	"github.com/sealstone/sealstone/internal/vfs"
)

// alignCandidates are tried in this order, for memory, offset and length each.
var alignCandidates = []int{512, 1024, 2048, 4096, 8192, 16384, 32768, maxAlignBytes}

// searchAlignments finds the smallest alignments of direct I/O. A quick probe
// needs them only to say why a page's does not do.
func (p *prober) searchAlignments(ctx context.Context) {
	refused := p.r.Path(PathPread).State == PathRefused
	if p.file == nil || p.file.direct == nil || p.file.readOnly || p.o.Quick && !refused ||
		p.file.direct.Fd() == vfs.InvalidFd && !refused {
		return
	}
	d := &p.r.Direct
	for _, dim := range []struct {
		found *int64
		io    func(candidate int) alignedIO
	}{
		{&d.MemBytes, func(c int) alignedIO { return alignedIO{mem: c, off: alignPart, length: partBytes} }},
		{&d.OffsetBytes, func(c int) alignedIO {
			return alignedIO{mem: maxAlignBytes, off: alignPart + int64(c), length: partBytes}
		}},
		{&d.LengthBytes, func(c int) alignedIO { return alignedIO{mem: maxAlignBytes, off: alignPart, length: c} }},
	} {
		for _, c := range alignCandidates {
			if ctx.Err() != nil {
				return
			}
			if p.alignedWorks(dim.io(c)) {
				*dim.found = int64(c)
				break
			}
		}
	}
	p.judgeAlignments(refused)
}

// alignedIO is one read or write; off is at most alignPart + maxAlignBytes.
type alignedIO struct {
	mem    int
	off    int64
	length int
}

func (p *prober) alignedWorks(io alignedIO) bool {
	f := p.file.direct
	return p.trial.write(f, io.off, io.length, io.mem) == nil &&
		f.Datasync() == nil &&
		p.trial.read(f, io.off, io.length, io.mem) == nil &&
		p.trial.read(p.file.buffered, io.off, io.length, io.mem) == nil
}

// judgeAlignments compares what was found with the format's page.
func (p *prober) judgeAlignments(refused bool) {
	d := p.r.Direct
	if !refused {
		p.r.path(PathPread).AlignmentBytes = max(d.MemBytes, d.OffsetBytes, d.LengthBytes)
		return
	}
	var wants []string
	for _, dim := range []struct {
		what  string
		bytes int64
	}{{"memory", d.MemBytes}, {"offset", d.OffsetBytes}, {"length", d.LengthBytes}} {
		if dim.bytes > PageBytes {
			wants = append(wants, fmt.Sprintf("%s at multiples of %d", dim.what, dim.bytes))
		}
	}
	if len(wants) > 0 {
		path := p.r.path(PathPread)
		path.Reason = fmt.Sprintf("direct I/O works only with %s, and the store's pages have %d bytes (%s)", strings.Join(wants, ", "), PageBytes, path.Reason)
	}
}
