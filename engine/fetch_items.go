package engine

import (
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/disk"
)

// planeSpans is where a plane is read to, straight into the caller's memory:
// spans are whole pages of the caller's. A plane that does not end at a page
// has its last bytes in tail, a page of the store, from where they are copied
// to rest when all is verified.
type planeSpans struct {
	spans [][]byte
	tail  []byte // as long as rest
	rest  []byte
}

// appendItems adds the reads of a fetch, in parts if it may be split.
func (f *flight) appendItems(items []tiers.Item, split bool) []tiers.Item {
	base := int64(f.from) * disk.PageBytes
	buf := f.buf.Bytes()
	if f.pieces != nil {
		for _, p := range f.pieces {
			items = append(items, tiers.Item{
				File: f.handle, Offset: base + p.off, Length: int(p.len), Spans: [][]byte{buf[p.at:][:p.len:p.len]},
			})
		}
		return items
	}
	var spans [][]byte
	if f.straight {
		spans = make([][]byte, 0, f.spans)
		for _, w := range f.wants {
			spans, buf = f.appendStraight(spans, w, buf)
		}
	} else {
		n := int(f.to-f.from) * disk.PageBytes
		spans = [][]byte{buf[:n:n]}
	}
	if split && f.split(spans) {
		return f.appendParts(items)
	}
	return append(items, tiers.Item{
		File: f.handle, Offset: base, Length: int(f.to-f.from) * disk.PageBytes, Spans: spans,
	})
}

// appendStraight adds the spans of one extent: its header into buf, its
// planes into the caller's spans. It returns what is left of buf.
func (f *flight) appendStraight(spans [][]byte, w *want, buf []byte) (all [][]byte, rest []byte) {
	head := int(w.found.entry.HeaderPages) * disk.PageBytes
	spans, buf = append(spans, buf[:head:head]), buf[head:]
	planes := make([]planeSpans, len(w.planeBytes))
	for i, size := range w.planeBytes {
		pl := &planes[i]
		from := len(spans)
		spans = append(spans, f.g.partOf(w, i).Spans...)
		broken := int(size % disk.PageBytes)
		if broken == 0 {
			pl.spans = spans[from:len(spans):len(spans)]
			continue
		}
		last := spans[len(spans)-1]
		cut := len(last) - broken
		pl.rest, pl.tail = last[cut:], buf[:broken:broken]
		if spans[len(spans)-1] = last[:cut]; cut == 0 {
			spans = spans[:len(spans)-1]
		}
		pl.spans = spans[from:len(spans):len(spans)]
		spans, buf = append(spans, buf[:disk.PageBytes:disk.PageBytes]), buf[disk.PageBytes:]
	}
	f.planes = append(f.planes, planes)
	return spans, buf
}

// partOf is the part that is plane i; straightSpans has seen to it that there
// is one.
func (g *getBatch) partOf(w *want, i int) *Part {
	for j := range w.parts {
		if k, err := g.n.planeOf(w.parts[j].Plane); err == nil && k == i {
			return &w.parts[j]
		}
	}
	return &Part{}
}
