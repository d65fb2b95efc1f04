package readertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/tiers"
)

// waitKind says who may give a read up.
type waitKind int

const (
	endless    waitKind = iota // the context cannot end
	cancelable                 // it can
	forDevice                  // it can, and the item waits for the device
	waitKinds
)

func (k waitKind) context() (context.Context, context.CancelFunc) {
	if k == endless {
		return context.Background(), func() {}
	}
	return context.WithCancel(context.Background())
}

// testContent reads all offsets, lengths and cuts that alignment cares for
// into all kinds of memory.
func testContent(t *testing.T, s *suite) {
	for _, kind := range fileKinds {
		for memory := range memoryKinds {
			for wait := range waitKinds {
				t.Run(fmt.Sprintf("%s/%v/wait=%d", kind, memory, wait), func(t *testing.T) {
					f := newFile(t, kind)
					r, _ := s.reader(t, Config{})
					readShapes(t, r, f, memory, wait)
					checkNotRefused(t, r)
				})
			}
		}
	}
}

func readShapes(t *testing.T, r tiers.Reader, f *file, memory memoryKind, wait waitKind) {
	rng := rand.New(rand.NewPCG(1, uint64(memory)))
	for _, off := range []int64{0, 1, 64, 512, 4095, 4096, 8192} {
		for _, length := range []int{1, 511, 4095, 4096, 4097, 3 * 4096, 3*4096 - 1, 65536, 65537} {
			cuts := []int{rng.IntN(length + 1)}
			if length > 4096 {
				cuts = []int{4096, 4096 + rng.IntN(length-4096)}
			}
			for _, c := range [][]int{nil, cuts} {
				ctx, cancel := wait.context()
				d := newDestination(t, memory, length)
				it := d.item(f, off, c...)
				it.WaitForDevice = wait == forDevice
				d.checkRead(t, readOne(t, r, ctx, it), f.content)
				cancel()
			}
		}
	}
}

// testRandomBatches reads batches of items of any shape.
func testRandomBatches(t *testing.T, s *suite) {
	f := newFile(t, osDirect)
	g := newFile(t, memDirect)
	r, pool := s.reader(t, Config{})
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 20).Draw(rt, "items")
		wait := waitKind(rapid.IntRange(0, int(waitKinds)-1).Draw(rt, "wait"))
		items := make([]tiers.Item, n)
		ds := make([]*destination, n)
		for i := range items {
			ds[i], items[i] = drawItem(t, rt, []*file{f, g})
			items[i].WaitForDevice = wait == forDevice
		}
		ctx, cancel := wait.context()
		defer cancel()
		if err := r.ReadBatch(ctx, items); err != nil {
			rt.Fatal(err)
		}
		for i := range items {
			ds[i].checkRead(t, items[i], items[i].File.(*file).content)
		}
		if inUse, _, _ := pool.Stats(); inUse != 0 {
			rt.Fatalf("%d bytes of buffers in use between batches", inUse)
		}
	})
}

func drawItem(t *testing.T, rt *rapid.T, files []*file) (*destination, tiers.Item) {
	f := rapid.SampledFrom(files).Draw(rt, "file")
	length := rapid.IntRange(1, 70000).Draw(rt, "length")
	if rapid.Bool().Draw(rt, "whole pages") {
		length = (length + 4095) &^ 4095
	}
	off := int64(rapid.IntRange(0, fileBytes-length).Draw(rt, "offset"))
	if rapid.Bool().Draw(rt, "at a page") {
		off &^= 4095
	}
	memory := memoryKind(rapid.IntRange(0, int(memoryKinds)-1).Draw(rt, "memory"))
	cuts := rapid.SliceOfN(rapid.IntRange(0, length), 0, 5).Draw(rt, "cuts")
	if rapid.Bool().Draw(rt, "cuts at pages") {
		for i := range cuts {
			cuts[i] &^= 4095
		}
	}
	slices.Sort(cuts)
	d := newDestination(t, memory, length)
	return d, d.item(f, off, cuts...)
}

// testManySpans reads into more spans than one system call takes.
func testManySpans(t *testing.T, s *suite) {
	f := newFile(t, osDirect)
	r, _ := s.reader(t, Config{})
	const length = 3000 * 64
	cuts := make([]int, 0, length/64)
	for c := 64; c < length; c += 64 {
		cuts = append(cuts, c)
	}
	for memory := range memoryKinds {
		for wait := range waitKinds {
			ctx, cancel := wait.context()
			d := newDestination(t, memory, length)
			it := d.item(f, 4096, cuts...)
			it.WaitForDevice = wait == forDevice
			d.checkRead(t, readOne(t, r, ctx, it), f.content)
			cancel()
		}
	}
}
