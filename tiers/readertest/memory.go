package readertest

import (
	"bytes"
	"testing"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers"
)

const (
	guardBytes = 4096 // before and behind the destination: keeps the alignment
	guardByte  = 0xa5
	oldByte    = 0x5a
)

// memoryKind says where a destination lies.
type memoryKind int

const (
	heap memoryKind = iota
	offHeap
	offHeapMisaligned
	memoryKinds
)

func (k memoryKind) String() string {
	return [...]string{"heap", "offheap", "misaligned"}[k]
}

// destination is memory for one item between guards, filled with old bytes.
type destination struct {
	all   []byte
	bytes []byte
	kind  memoryKind
}

// newDestination makes a destination that lives as long as the test.
func newDestination(t testing.TB, kind memoryKind, length int) *destination {
	t.Helper()
	total := 2*guardBytes + length + 1
	var all []byte
	if kind == heap {
		all = make([]byte, total)
	} else {
		buf, err := aligned.Alloc(total)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(buf.Free)
		all = buf.Bytes()
	}
	from := guardBytes
	if kind == offHeapMisaligned {
		from++
	}
	d := &destination{all: all, bytes: all[from : from+length : from+length], kind: kind}
	for i := range all {
		all[i] = guardByte
	}
	for i := range d.bytes {
		d.bytes[i] = oldByte
	}
	return d
}

// spans cuts the destination at the given places.
func (d *destination) spans(cuts ...int) [][]byte {
	var out [][]byte
	from := 0
	for _, c := range append(cuts, len(d.bytes)) {
		out = append(out, d.bytes[from:c])
		from = c
	}
	return out
}

// item reads into the whole destination.
func (d *destination) item(f tiers.File, off int64, cuts ...int) tiers.Item {
	return tiers.Item{
		File: f, Offset: off, Length: len(d.bytes), Spans: d.spans(cuts...), OffHeap: d.kind != heap,
	}
}

// checkGuards wants nothing written beside the destination.
func (d *destination) checkGuards(t testing.TB) {
	t.Helper()
	from := guardBytes
	if d.kind == offHeapMisaligned {
		from++
	}
	for i, b := range d.all {
		if (i < from || i >= from+len(d.bytes)) && b != guardByte {
			t.Fatalf("byte %d beside the destination was written", i-from)
		}
	}
}

// checkUntaken wants old bytes or zeros, as after every answer but success.
func (d *destination) checkUntaken(t testing.TB, it tiers.Item) {
	t.Helper()
	d.checkGuards(t)
	if it.Err == nil || it.N != 0 || it.Path != tiers.PathNone {
		t.Fatalf("err %v, n %d, path %v: want an error alone", it.Err, it.N, it.Path)
	}
	for i, b := range d.bytes {
		if b != oldByte && b != 0 {
			t.Fatalf("byte %d is %#x after %v", i, b, it.Err)
		}
	}
}

// checkOld wants the destination as it was made.
func (d *destination) checkOld(t testing.TB) {
	t.Helper()
	d.checkGuards(t)
	for i, b := range d.bytes {
		if b != oldByte {
			t.Fatalf("byte %d was written: %#x", i, b)
		}
	}
}

// checkRead wants success, and the bytes of content from off on.
func (d *destination) checkRead(t testing.TB, it tiers.Item, content []byte) {
	t.Helper()
	d.checkGuards(t)
	if it.Err != nil || it.N != len(d.bytes) || it.Path == tiers.PathNone {
		t.Fatalf("err %v, n %d of %d, path %v", it.Err, it.N, len(d.bytes), it.Path)
	}
	if !bytes.Equal(d.bytes, content[it.Offset:][:len(d.bytes)]) {
		t.Fatalf("wrong bytes at %d+%d by path %v", it.Offset, len(d.bytes), it.Path)
	}
}
