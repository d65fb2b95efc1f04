package layout

import (
	"encoding/binary"
	"fmt"
	"strconv"
)

func planesField(tag uint16) field {
	return field{
		tag: tag, name: "planes",
		zero:  func(l *Layout) bool { return len(l.Planes) == 0 },
		check: func(l *Layout) string { return checkPlanes(l.Planes) },
		show:  func(l *Layout) string { return planeNames(l.Planes) },
		put:   putPlanes,
		get:   getPlanes,
		diff:  diffPlanes,
	}
}

// putPlanes: count u32, then per plane: name (length u16 before it), size u64.
func putPlanes(dst []byte, l *Layout) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(l.Planes)))
	for _, p := range l.Planes {
		dst = appendBytes16(dst, p.Name)
		dst = binary.LittleEndian.AppendUint64(dst, uint64(p.SizeBytes))
	}
	return dst
}

func getPlanes(l *Layout, p []byte) error {
	c := cursor{p: p}
	n := c.u32()
	if n > MaxPlanes {
		return fmt.Errorf("%d planes, more than %d", n, MaxPlanes)
	}
	for range n {
		plane := Plane{Name: c.bytes16(), SizeBytes: int64(c.u64())}
		if c.short {
			break // before it is kept: a lie about the count costs nothing
		}
		l.Planes = append(l.Planes, plane)
	}
	return c.end()
}

func planeNames(planes []Plane) string {
	s := ""
	for i, p := range planes {
		if i > 0 {
			s += ","
		}
		s += p.Name
	}
	return s
}

func (p Plane) show() string {
	if p.SizeBytes == 0 {
		return "any size"
	}
	return strconv.FormatInt(p.SizeBytes, 10) + " bytes"
}

// diffPlanes compares plane by plane, by name: with 256 planes a list of both
// sides would be unreadable. Equal planes in another order are one difference.
func diffPlanes(a, b *Layout) []Difference {
	ds := diffNamed("planes.", a.Planes, b.Planes,
		func(p Plane) (string, string) { return p.Name, p.show() })
	if len(ds) == 0 && planeNames(a.Planes) != planeNames(b.Planes) {
		ds = append(ds, Difference{Field: "planes", A: planeNames(a.Planes), B: planeNames(b.Planes)})
	}
	return ds
}

// CheckPlanes reports whether a block may have these planes under l: the same
// names in the same order, each of the size that l says, or of 1 byte or more
// where l allows any size, and together within MaxBlockBytes. The error wraps
// [ErrPlanes].
func (l Layout) CheckPlanes(got []Plane) error {
	if len(got) != len(l.Planes) {
		return fmt.Errorf("%w: it has %d (%.200s), the layout %d (%.200s)", ErrPlanes,
			len(got), planeNames(got), len(l.Planes), planeNames(l.Planes))
	}
	total := int64(0)
	for i, want := range l.Planes {
		g := got[i]
		if g.Name != want.Name {
			return fmt.Errorf("%w: plane %d is %q, in the layout %q", ErrPlanes, i, g.Name, want.Name)
		}
		if g.SizeBytes < 1 || g.SizeBytes > MaxBlockBytes {
			return fmt.Errorf("%w: plane %q has %d bytes, allowed are 1 to %d", ErrPlanes, g.Name, g.SizeBytes, MaxBlockBytes)
		}
		if want.SizeBytes != 0 && g.SizeBytes != want.SizeBytes {
			return fmt.Errorf("%w: plane %q has %d bytes, in the layout %d", ErrPlanes, g.Name, g.SizeBytes, want.SizeBytes)
		}
		total += g.SizeBytes
	}
	if total > MaxBlockBytes {
		return fmt.Errorf("%w: together %d bytes, more than %d", ErrPlanes, total, MaxBlockBytes)
	}
	return nil
}
