package bench

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/sealstone/sealstone/tools/internal/cputime"
	"github.com/sealstone/sealstone/tools/internal/stamp"
)

// The workloads.
const (
	Offload = "offload"
	Onboard = "onboard"
	Mixed   = "mixed"
	Match   = "match"
	Ranges  = "ranges"
)

// Workloads are all workloads in the order in which a list of them is sorted.
var Workloads = []string{Offload, Onboard, Mixed, Match, Ranges}

// workload is what distinguishes one.
type workload struct {
	call    callFunc
	moves   bool // bytes; else only calls count
	fresh   bool // each round on a store of its own: puts never evict
	ordered bool // blocks of a call are neighbours of one chain
	puts    bool // the round ends with a flush, which belongs to it
	beside  bool // fio can do the same
}

var workloads = map[string]workload{
	Offload: {call: (*worker).put, moves: true, fresh: true, ordered: true, puts: true, beside: true},
	Onboard: {call: (*worker).get, moves: true, beside: true},
	Mixed:   {call: (*worker).mix, moves: true, puts: true},
	Match:   {call: (*worker).match, ordered: true},
	Ranges:  {call: (*worker).get, moves: true, beside: true},
}

// callFunc makes one call on a batch of blocks and counts what came of it.
type callFunc func(w *worker, ctx context.Context, batch []int)

// worker makes calls, one at a time.
type worker struct {
	store  Store
	shape  Shape
	parts  int // got of a block: so many planes
	set    int // that gets read
	putSet int // that puts make
	buffer []byte
	hashes [][]byte // of set; made before time is taken
	random *rand.Rand
	depth  *callDepth
	measured
}

// blocksOf are the blocks of a batch in the worker's buffer, each of size
// bytes there.
func (w *worker) blocksOf(batch []int, size int64) []Block {
	blocks := make([]Block, len(batch))
	for i := range batch {
		from := int64(i) * size
		blocks[i].Data = w.buffer[from : from+size : from+size]
	}
	return blocks
}

func (w *worker) put(ctx context.Context, batch []int) {
	blocks := w.blocksOf(batch, w.shape.BlockBytes)
	w.own(func() {
		for i, at := range batch {
			r := stamp.Ref(w.putSet, at)
			hash := r.Hash()
			blocks[i].Hash = hash[:]
			stamp.Write(blocks[i].Data, r)
			if i > 0 {
				blocks[i].Parent = blocks[i-1].Hash
			}
		}
	})
	begin := w.begin(len(blocks))
	results := w.store.Put(ctx, blocks)
	w.end(begin, len(blocks))
	w.count(len(blocks), w.shape.BlockBytes, results)
}

func (w *worker) get(ctx context.Context, batch []int) {
	first := w.random.IntN(w.shape.Planes/w.parts) * w.parts
	from, _ := w.shape.plane(first)
	_, to := w.shape.plane(first + w.parts - 1)
	blocks := w.blocksOf(batch, to-from)
	probes := make([]int, len(blocks))
	w.own(func() {
		for i := range blocks {
			blocks[i].Hash = w.hashes[batch[i]]
			blocks[i].FirstPlane, blocks[i].Planes = first, w.parts
			probes[i] = -1
			if off, ok := stamp.Probe(len(blocks[i].Data), int(from), w.random); ok {
				probes[i] = off
				clear(blocks[i].Data[off : off+stamp.Bytes])
			}
		}
	})
	begin := w.begin(len(blocks))
	results := w.store.Get(ctx, blocks)
	w.end(begin, len(blocks))
	w.count(len(blocks), to-from, results)
	w.own(func() {
		for i, r := range results {
			if off := probes[i]; r.OK && off >= 0 && !stamp.At(blocks[i].Data, off, int(from)+off, stamp.Ref(w.set, batch[i])) {
				w.wrong++
			}
		}
	})
}

// check gets whole blocks and looks at every page; no time is taken.
func (w *worker) check(ctx context.Context, batch []int) {
	blocks := w.blocksOf(batch, w.shape.BlockBytes)
	for i := range blocks {
		clear(blocks[i].Data)
		blocks[i].Hash, blocks[i].Planes = w.hashes[batch[i]], w.shape.Planes
	}
	results := w.store.Get(ctx, blocks)
	w.count(len(blocks), w.shape.BlockBytes, results)
	for i, r := range results {
		if r.OK && !stamp.All(blocks[i].Data, 0, stamp.Ref(w.set, batch[i])) {
			w.wrong++
		}
	}
}

// mix puts in three calls of ten. A put's blocks are new: those of the same
// numbers in the round's own set.
func (w *worker) mix(ctx context.Context, batch []int) {
	if w.random.IntN(10) < 3 {
		w.put(ctx, batch)
		return
	}
	w.get(ctx, batch)
}

func (w *worker) match(ctx context.Context, batch []int) {
	hashes := make([][]byte, len(batch))
	for i, at := range batch {
		hashes[i] = w.hashes[at]
	}
	begin := w.begin(0)
	n, err := w.store.Match(ctx, hashes)
	w.end(begin, 0)
	if err != nil {
		w.status("Error", int64(len(hashes)))
		w.failed += int64(len(hashes))
		return
	}
	w.status("OK", int64(n))
	if missing := int64(len(hashes) - n); missing > 0 {
		w.status("Miss", missing)
		w.failed += missing
	}
}

// begin and end enclose a call that has n requests for the device.
func (w *worker) begin(n int) time.Time {
	w.depth.add(n)
	return time.Now()
}

func (w *worker) end(begin time.Time, n int) {
	w.calls = append(w.calls, time.Since(begin))
	w.depth.add(-n)
}

// own does work of the bench itself and counts its processor time, so that it
// can be taken off.
func (w *worker) own(do func()) {
	cpu := cputime.Thread()
	do()
	w.ownCPU += cpu()
}
