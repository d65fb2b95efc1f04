package layout

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

func extraField(tag uint16) field {
	return field{
		tag: tag, name: "extra", optional: true,
		zero:  func(l *Layout) bool { return len(l.Extra) == 0 },
		check: func(l *Layout) string { return checkExtra(l.Extra) },
		show:  func(l *Layout) string { return strconv.Itoa(len(l.Extra)) + " pairs" },
		put:   putExtra,
		get:   getExtra,
		diff:  diffExtra,
	}
}

// putExtra: count u32, then per pair in the order of the keys: key and value,
// each with its length (u16) before it.
func putExtra(dst []byte, l *Layout) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(l.Extra)))
	for _, key := range slices.Sorted(maps.Keys(l.Extra)) {
		dst = appendBytes16(dst, key)
		dst = appendBytes16(dst, l.Extra[key])
	}
	return dst
}

func getExtra(l *Layout, p []byte) error {
	c := cursor{p: p}
	n := c.u32()
	if n > MaxExtra {
		return fmt.Errorf("%d pairs, more than %d", n, MaxExtra)
	}
	l.Extra = map[string]string{}
	for range n {
		key, value := c.bytes16(), c.bytes16()
		if c.short {
			break
		}
		l.Extra[key] = value
	}
	return c.end()
}

func diffExtra(a, b *Layout) []Difference {
	type pair struct{ key, value string }
	list := func(m map[string]string) (ps []pair) {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			ps = append(ps, pair{key, m[key]})
		}
		return ps
	}
	return diffNamed("extra.", list(a.Extra), list(b.Extra),
		func(p pair) (string, string) { return p.key, strconv.Quote(p.value) })
}
