package demo

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// A patient is a closed store whose files are edited from outside, as a bad
// disk or a careless hand would.
type patient struct {
	dir string
	key sums.Key
}

// located is an extent and where its header begins.
type located struct {
	path   string
	offset int64
	extent *disk.Extent
}

var errNotFound = errors.New("demo: no extent of this block in any segment")

// openPatient reads what is needed to find and forge extents.
func openPatient(dir string) (p *patient, err error) {
	tree, err := vfs.OpenOS(dir)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	defer func() { err = errors.Join(err, tree.Close()) }()
	m, _, err := meta.Open(tree, true)
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	return &patient{dir, m.Key()}, nil
}

// find looks for the block's extent page by page, in all segments.
func (p *patient) find(hash []byte) (located, error) {
	found := located{}
	err := filepath.WalkDir(filepath.Join(p.dir, "segments"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".seg") || found.extent != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for off := 0; off+disk.PageBytes <= len(data); off += disk.PageBytes {
			e, _, err := disk.DecodeExtent(data[off:], p.key)
			if err == nil && bytes.Equal(e.Hash, hash) && e.Kind == disk.KindFull && e.Address.Offset() == int64(off) {
				found = located{path, int64(off), e}
				return nil
			}
		}
		return nil
	})
	if err == nil && found.extent == nil {
		err = errNotFound
	}
	return found, err
}

// payloadAt is the file offset of the payload.
func (l located) payloadAt() int64 {
	return l.offset + int64(l.extent.HeaderPages)*disk.PageBytes
}

func (l located) payloadBytes() int64 { return int64(l.extent.PayloadPages) * disk.PageBytes }

// edit reads n bytes at an offset of a file, changes them and writes them
// back, durably.
func edit(path string, offset, n int64, change func([]byte)) (err error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b := make([]byte, n)
	if _, err := f.ReadAt(b, offset); err != nil {
		return err
	}
	change(b)
	if _, err := f.WriteAt(b, offset); err != nil {
		return err
	}
	return f.Sync()
}

// flipBit flips one bit of the payload, at a byte offset within it.
func (p *patient) flipBit(l located, at int64) error {
	return edit(l.path, l.payloadAt()+at, 1, func(b []byte) { b[0] ^= 0x10 })
}

// swap exchanges two extents of equal size, headers and payloads.
func (p *patient) swap(a, b located) error {
	if a.extent.Pages() != b.extent.Pages() {
		return fmt.Errorf("demo: extents of %d and %d pages cannot be swapped", a.extent.Pages(), b.extent.Pages())
	}
	n := int64(a.extent.Pages()) * disk.PageBytes
	var first, second []byte
	if err := edit(a.path, a.offset, n, func(x []byte) { first = bytes.Clone(x) }); err != nil {
		return err
	}
	if err := edit(b.path, b.offset, n, func(x []byte) { second = bytes.Clone(x); copy(x, first) }); err != nil {
		return err
	}
	return edit(a.path, a.offset, n, func(x []byte) { copy(x, second) })
}

// swapPayloads exchanges the payloads and leaves each header where it is.
func (p *patient) swapPayloads(a, b located) error {
	a.offset, b.offset = a.payloadAt(), b.payloadAt()
	payloadOnly := func(l located) located {
		e := *l.extent
		e.HeaderPages = 0
		l.extent = &e
		return l
	}
	return p.swap(payloadOnly(a), payloadOnly(b))
}

// forge overwrites the payload with other bytes and makes everything beside it
// agree: chunk sums, content id, and the header's own keyed sum. Within the
// segment nothing is wrong any more.
func (p *patient) forge(l located, fill func([]byte)) error {
	e := *l.extent
	e.Chunks = nil
	var lengths []int64
	err := edit(l.path, l.payloadAt(), l.payloadBytes(), func(payload []byte) {
		for _, pl := range e.Planes {
			plane := payload[pl.OffsetBytes : pl.OffsetBytes+pl.RawBytes]
			fill(plane)
			lengths = append(lengths, pl.RawBytes)
			for _, sum := range sums.Chunks(nil, plane) {
				e.Chunks = append(e.Chunks, disk.Chunk{RawSum: sum})
			}
		}
	})
	if err != nil {
		return err
	}
	raw := make([]uint64, len(e.Chunks))
	for i, c := range e.Chunks {
		raw[i] = c.RawSum
	}
	e.ContentID = sums.Content(lengths, raw)
	header := make([]byte, int(e.HeaderPages)*disk.PageBytes)
	if _, err := disk.EncodeExtent(header, &e, p.key); err != nil {
		return err
	}
	return edit(l.path, l.offset, int64(len(header)), func(b []byte) { copy(b, header) })
}

// cut truncates the segment in the middle of the extent's payload.
func (p *patient) cut(l located) error {
	return os.Truncate(l.path, l.payloadAt()+l.payloadBytes()/2)
}

// deleteIndex removes the whole index.
func (p *patient) deleteIndex() error { return os.RemoveAll(filepath.Join(p.dir, "index")) }
