package aligned

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// model is what the pool has to agree with: which buffers are out, and what
// their owners wrote.
type model struct {
	p     *Pool
	limit int64
	out   []*Buffer
	marks []uint64
	next  uint64
}

// mark writes a number all over a buffer, once a page and at both ends.
func mark(b []byte, n uint64) {
	b = b[:cap(b)]
	for i := 0; i < len(b); i += 1024 {
		binary.LittleEndian.PutUint64(b[i:], n)
	}
	binary.LittleEndian.PutUint64(b[len(b)-8:], n)
}

func marked(b []byte, n uint64) bool {
	b = b[:cap(b)]
	want := binary.LittleEndian.AppendUint64(nil, n)
	for i := 0; i < len(b); i += 1024 {
		if !bytes.Equal(b[i:i+8], want) {
			return false
		}
	}
	return bytes.Equal(b[len(b)-8:], want)
}

func (m *model) bytes() (n int64) {
	for _, b := range m.out {
		n += int64(cap(b.Bytes()))
	}
	return n
}

func (m *model) get(t *rapid.T) {
	size := rapid.OneOf(rapid.IntRange(1, 40<<10), rapid.IntRange(1, 600<<10), rapid.IntRange(1, 5<<20)).Draw(t, "size")
	takes := bytesOf(classPages(size))
	b, err := m.p.TryGet(size)
	switch {
	case takes > m.limit:
		if !errors.Is(err, ErrTooLarge) {
			t.Fatalf("TryGet(%d), limit %d: %v", size, m.limit, err)
		}
		return
	case m.bytes()+takes > m.limit:
		if !errors.Is(err, ErrExhausted) {
			t.Fatalf("TryGet(%d), %d of %d out: %v", size, m.bytes(), m.limit, err)
		}
		return
	case err != nil: // whatever the pieces of the free rest look like
		t.Fatalf("TryGet(%d), %d of %d out: %v", size, m.bytes(), m.limit, err)
	}
	mem := b.Bytes()
	align := unitBytes
	if m.limit >= HugePageBytes {
		align = min(classAlign(classPages(size))*unitBytes, wantHugeAlign)
	}
	if len(mem) != size || int64(cap(mem)) != takes || !IsAligned(mem, align) {
		t.Fatalf("TryGet(%d): %d bytes of %d at %p, want %d at a multiple of %d", size, len(mem), cap(mem), mem, takes, align)
	}
	m.next++
	mark(mem, m.next)
	m.out, m.marks = append(m.out, b), append(m.marks, m.next)
}

func (m *model) free(t *rapid.T) {
	if len(m.out) == 0 {
		t.Skip("nothing is out")
	}
	i := rapid.IntRange(0, len(m.out)-1).Draw(t, "which")
	if !marked(m.out[i].Bytes(), m.marks[i]) {
		t.Fatal("bytes of a buffer changed under its owner")
	}
	m.out[i].Free()
	m.out, m.marks = slices.Delete(m.out, i, i+1), slices.Delete(m.marks, i, i+1)
}

func (m *model) check(t *rapid.T) {
	got := m.p.Memory()
	if got.InUseBytes != m.bytes() || got.InUseBuffers != len(m.out) || got.CachedBytes < 0 || got.InUseBytes+got.CachedBytes > m.limit {
		t.Fatalf("%+v, want %d bytes in %d buffers", got, m.bytes(), len(m.out))
	}
	byAddress := slices.SortedFunc(slices.Values(m.out), func(a, b *Buffer) int { return cmp.Compare(address(a), address(b)) })
	for i := 1; i < len(byAddress); i++ {
		if before := byAddress[i-1]; address(before)+uintptr(cap(before.Bytes())) > address(byAddress[i]) {
			t.Fatalf("buffers at %#x and %#x overlap", address(before), address(byAddress[i]))
		}
	}
	m.books(t)
}

// books counts the pages of all slabs anew.
func (m *model) books(t *rapid.T) {
	var used, warm int
	for _, s := range m.p.slabs {
		u, w := s.used.count(0, s.pages), s.warm.count(0, s.pages)
		if u != s.usedPages || w != s.warmPages || u > w {
			t.Fatalf("slab: %d used and %d warm pages, its books say %d and %d", u, w, s.usedPages, s.warmPages)
		}
		used, warm = used+u, warm+w
	}
	if bytesOf(used) != m.p.inUseBytes || bytesOf(warm-used) != m.p.cachedBytes {
		t.Fatalf("%d used and %d warm pages, the pool says %d and %d bytes", used, warm, m.p.inUseBytes, m.p.cachedBytes)
	}
}

func address(b *Buffer) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b.Bytes()))) }

// TestPoolModel: buffers never overlap, keep what their owners wrote while
// others come and go and memory is returned, and the limit holds to the byte.
func TestPoolModel(t *testing.T) {
	for _, small := range []bool{false, true} {
		rapid.Check(t, func(t *rapid.T) {
			limit := int64(rapid.OneOf(rapid.IntRange(0, 1<<20), rapid.IntRange(1<<20, 12<<20)).Draw(t, "limit"))
			m := &model{limit: limit, p: New(Options{LimitBytes: limit, IdleInterval: -1, SmallPages: small})}
			t.Repeat(map[string]func(*rapid.T){
				"get": m.get, "get2": m.get, "free": m.free,
				"idle": func(*rapid.T) { m.p.trimIdle() },
				"":     m.check,
			})
			for i, b := range m.out {
				if !marked(b.Bytes(), m.marks[i]) {
					t.Error("bytes of a buffer changed under its owner")
				}
				b.Free()
			}
			if err := m.p.Close(); err != nil {
				t.Error(err)
			}
			if got := m.p.Memory(); got.Slabs != 0 || got.MappedBytes != 0 || got.CachedBytes != 0 {
				t.Errorf("after Close: %+v", got)
			}
		})
	}
}
