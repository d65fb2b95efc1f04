package engine

import (
	"bytes"
	"context"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// TestFaultMediaRemovedUnderReaders, field case 9: segments are removed while
// many readers get from them. Nobody gets wrong bytes, a late failure does not
// take a block away that was put again meanwhile, and what is gone is no error
// to an eviction.
func TestFaultMediaRemovedUnderReaders(t *testing.T) {
	const blocks, size = 60, 50000
	tally := faulttest.New(t)
	fs := vfs.NewMem()
	o := victimOptions(fs)
	o.MaxOpenFiles = 32 // so that removed files are opened again
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	at := map[uint64][]int{}
	for id := range blocks {
		mustPut(t, n, blockOf(id, 0, size))
	}
	mustFlush(t, s)
	for id := range blocks {
		segment := entryOf(t, s, n, id).Address.Segment
		at[segment] = append(at[segment], id)
	}
	readers := 64
	if testing.Short() {
		readers = 16
	}
	var stop atomic.Bool
	var gets, wrong atomic.Int64
	var wg sync.WaitGroup
	for r := range readers {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(r), 9))
			for !stop.Load() {
				b := victimBlock{content: rng.IntN(blocks), size: size}
				b.id = b.content
				p, res := readVictim(n, b)
				switch res.Status {
				case StatusOK:
					wrong.Add(wrongBytes(p, b.want()))
				case StatusMiss, StatusCorrupt:
				default:
					t.Errorf("get of block %d beside removals: %v %v", b.id, res.Status, res.Err)
				}
				gets.Add(1)
			}
		})
	}
	var again []int
	for i, segment := range slices.Sorted(maps.Keys(at)) {
		if i%2 == 1 || len(at) < 2 {
			continue
		}
		fault := tally.Try("removal of " + disk.SegmentName(segment))
		if err := fs.Remove(disk.SegmentName(segment)); err != nil {
			t.Fatal(err)
		}
		fault.Fire()
		if i%4 == 0 {
			if err := fs.Remove(disk.SidecarName(segment)); err != nil {
				t.Fatal(err)
			}
		}
		// Who finds a block gone puts it again, beside the readers.
		for _, id := range at[segment] {
			if putOne(n, blockOf(id, 0, size)).Status == StatusOK {
				again = append(again, id)
			}
		}
		for seen := gets.Load(); gets.Load() < seen+int64(2*readers); { // they go on
			runtime.Gosched()
		}
		fault.Survive()
	}
	stop.Store(true)
	wg.Wait()
	tally.WrongBytes(wrong.Load())
	for range 3 {
		if _, err := s.EvictOnce(context.Background()); err != nil {
			t.Errorf("eviction: %v", err)
		}
	}
	mustClose(t, s)
	s = mustOpen(t, o)
	defer mustClose(t, s)
	n = mustSpace(t, s)
	ok := 0
	for id := range blocks {
		b := victimBlock{id: id, content: id, size: size}
		p, res := readVictim(n, b)
		switch {
		case res.Status == StatusOK:
			tally.WrongBytes(wrongBytes(p, b.want()))
			ok++
		case res.Status != StatusMiss && res.Status != StatusCorrupt:
			t.Errorf("block %d: %v %v", id, res.Status, res.Err)
		}
	}
	if ok == 0 || len(again) == 0 {
		t.Errorf("%d blocks are left, %d were put again", ok, len(again))
	}
	// Whatever is a miss can be put, and is served.
	for id := range blocks {
		if putOne(n, blockOf(id, 0, size)).Status == StatusOK {
			wantBlock(t, n, id, 0, size)
		}
	}
}

// TestFaultMediaOnePlane, field case 38: a block is all of its planes. Damage in
// the smallest of them costs the block, and a put without it is refused.
func TestFaultMediaOnePlane(t *testing.T) {
	tally := faulttest.New(t)
	fs := vfs.NewMem()
	s := mustOpen(t, testOptions(fs))
	defer mustClose(t, s)
	l := layout.Opaque("scales")
	sizes := map[string]int{"k": 9000, "v": 9000, "k_scale": 64, "v_scale": 64}
	names := []string{"k", "v", "k_scale", "v_scale"}
	l.Planes = nil
	for _, p := range names {
		l.Planes = append(l.Planes, layout.Plane{Name: p})
	}
	n, err := s.Namespace(context.Background(), l, "tenant", NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	block := func(id int, planes ...string) PutBlock {
		b := PutBlock{Hash: hashOf(id)}
		for i, p := range planes {
			b.Planes = append(b.Planes, PlaneData{Name: p, Spans: [][]byte{contentOf(id, i, sizes[p])}})
		}
		return b
	}
	for i := range names {
		mustPut(t, n, block(i, names...))
	}
	if r := putOne(n, block(9, "k", "v")); r.Status != StatusLayoutMismatch {
		t.Errorf("a put without scales: %v %v", r.Status, r.Err)
	}
	mustFlush(t, s)
	for id, name := range names {
		e := entryOf(t, s, n, id)
		file := disk.SegmentName(e.Address.Segment)
		ext, _, err := s.vol.ReadExtent(e.Address)
		if err != nil {
			t.Fatal(err)
		}
		for i := range ext.Planes {
			if ext.Planes[i].Name == name {
				flipByte(t, fs, file, e.Address.Offset()+int64(e.HeaderPages)*disk.PageBytes+ext.Planes[i].OffsetBytes+7)
			}
		}
		fault := tally.Try("bit of plane " + name)
		fault.Fire()
		var parts []Part
		for _, p := range names {
			parts = append(parts, Part{Plane: p, Spans: [][]byte{bytes.Repeat([]byte{0xa5}, sizes[p])}})
		}
		r := n.Get(context.Background(), []GetBlock{{Hash: hashOf(id), Parts: parts}}, GetOptions{})[0]
		if r.Status != StatusCorrupt {
			t.Errorf("a bit of %s: %v %v", name, r.Status, r.Err)
			continue
		}
		for i, p := range parts {
			if !bytes.Equal(p.Spans[0], bytes.Repeat([]byte{0xa5}, sizes[names[i]])) {
				t.Errorf("a bit of %s: plane %s was delivered", name, names[i])
			}
		}
		fault.Survive()
	}
}
