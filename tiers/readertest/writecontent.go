package readertest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/tiers"
)

// testWriteContent writes all offsets, lengths and cuts that alignment cares
// for from all kinds of memory.
func testWriteContent(t *testing.T, s *suite) {
	for _, kind := range fileKinds {
		for memory := range memoryKinds {
			t.Run(fmt.Sprintf("%s/%v", kind, memory), func(t *testing.T) {
				f := newFile(t, kind)
				w := s.writer(t, Config{})
				round := byte(0)
				for _, off := range []int64{0, 1, 512, 4095, 4096, 8192} {
					for _, length := range []int{1, 511, 4096, 4097, 3 * 4096, 65536} {
						for _, cuts := range [][]int{nil, {length / 2}, {length &^ 4095 / 2 &^ 4095}} {
							round++
							it := writeOne(t, w, source(t, memory, f, off, length, round, cuts...))
							checkWritten(t, it)
							checkWritePath(t, w, f, it, memory)
						}
					}
				}
				f.checkContent(t)
				checkWritesNotRefused(t, w)
			})
		}
	}
}

// checkWritePath wants the page cache avoided exactly where it can be.
func checkWritePath(t *testing.T, w tiers.Reader, f *file, it tiers.Item, memory memoryKind) {
	t.Helper()
	suits := f.direct != nil && !isBuffered(w) && memory == offHeap && it.Offset%4096 == 0
	for _, s := range it.Spans {
		suits = suits && len(s) > 0 && len(s)%4096 == 0
	}
	buffered := it.Path == tiers.PathBuffered || it.Path == tiers.PathBufferedBounce
	if suits && buffered {
		t.Errorf("write %d+%d took the path %v", it.Offset, it.Length, it.Path)
	}
	if !suits && it.Path == tiers.PathDirect {
		t.Errorf("write %d+%d of %v memory took the path %v", it.Offset, it.Length, memory, it.Path)
	}
}

// testWriteRandomBatches writes batches of neighbours of any shape, and reads
// them back through the same reader.
func testWriteRandomBatches(t *testing.T, s *suite) {
	f := newFile(t, osDirect)
	w := s.writer(t, Config{})
	round := byte(0)
	rapid.Check(t, func(rt *rapid.T) {
		round++
		var items []tiers.Item
		off := int64(rapid.IntRange(0, 5000).Draw(rt, "from"))
		for range rapid.IntRange(0, 12).Draw(rt, "items") {
			length := rapid.IntRange(1, 20000).Draw(rt, "length")
			if rapid.Bool().Draw(rt, "whole pages") {
				off, length = (off+4095)&^4095, (length+4095)&^4095
			}
			if off+int64(length) > fileBytes {
				break
			}
			memory := memoryKind(rapid.IntRange(0, int(memoryKinds)-1).Draw(rt, "memory"))
			items = append(items, source(t, memory, f, off, length, round))
			off += int64(length)
		}
		if err := w.WriteBatch(items); err != nil {
			rt.Fatal(err)
		}
		for _, it := range items {
			checkWritten(rt, it)
			d := newDestination(t, offHeap, it.Length)
			d.checkRead(t, readOne(t, w, context.Background(), d.item(f, it.Offset)), f.content)
		}
	})
	f.checkContent(t)
}

// testWriteGrowsFile: a write past the end extends the file to its own end
// and no further.
func testWriteGrowsFile(t *testing.T, s *suite) {
	for _, kind := range fileKinds {
		for memory := range memoryKinds {
			f := newFile(t, kind)
			w := s.writer(t, Config{})
			off := int64(fileBytes+4095) &^ 4095
			grown := make([]byte, off+8192)
			copy(grown, f.content)
			f.content = grown
			checkWritten(t, writeOne(t, w, source(t, memory, f, off, 8192, 1, 4096)))
			f.checkContent(t)
		}
	}
}

// testWriteConcurrent: batches of reads and writes at one time, each in its
// own part of the file.
func testWriteConcurrent(t *testing.T, s *suite) {
	f := newFile(t, osDirect)
	w := s.writer(t, Config{Workers: 8, QueueMax: 256})
	const parts, partBytes = 8, 8 * 4096
	var wg sync.WaitGroup
	for part := range parts {
		wg.Go(func() {
			for round := range 20 {
				base := int64(part * partBytes)
				var items []tiers.Item
				for i := range 4 {
					items = append(items, source(t, memoryKind(i%int(memoryKinds)), f, base+int64(i)*8192, 8192-i%2, byte(round)))
				}
				if err := w.WriteBatch(items); err != nil {
					t.Error(err)
				}
				d := newDestination(t, memoryKind(round%int(memoryKinds)), partBytes)
				back := []tiers.Item{d.item(f, base)}
				if err := w.ReadBatch(context.Background(), back); err != nil || back[0].Err != nil {
					t.Errorf("read back: %v, %v", err, back[0].Err)
				}
				for i := range d.bytes {
					if d.bytes[i] != f.content[base+int64(i)] {
						t.Errorf("part %d, round %d: byte %d is wrong", part, round, i)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	f.checkContent(t)
}
