package engine

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/tiers/disk"
)

const (
	// buildWorkersMax bounds the goroutines that copy and hash for puts, of
	// all callers together; fewer where there are fewer processors. More add
	// nothing: memory is the limit then.
	buildWorkersMax = 8
	// buildPieceChunks is how much of a plane one of them takes at a time.
	buildPieceChunks = 16
	// buildTaskBytes: pieces of small blocks are given out together, up to
	// this much, as waking a goroutine costs as much as copying some pages.
	buildTaskBytes = 256 << 10
)

func buildWorkers() int { return min(runtime.GOMAXPROCS(0), buildWorkersMax) }

// buildPiece is a run of chunks of one plane, to be copied and hashed.
type buildPiece struct {
	it     *putItem
	img    *image
	source PlaneData
	plane  int
	off, n int64 // in the plane
	chunk  int   // the first, in the chunk table
}

// parallel calls do(0) to do(n-1) on several goroutines, in the store's slots
// for such work, until one returns false. It returns when all have.
func (s *Store) parallel(n int, do func(i int) bool) (all bool) {
	var next atomic.Int64
	var stopped atomic.Bool
	work := func() {
		for !stopped.Load() {
			i := int(next.Add(1)) - 1
			if i >= n {
				return
			}
			s.builders <- struct{}{}
			if !do(i) {
				stopped.Store(true)
			}
			<-s.builders
		}
	}
	var wg sync.WaitGroup
	for range min(n, cap(s.builders)) - 1 {
		wg.Go(work)
	}
	work()
	wg.Wait()
	return !stopped.Load()
}

// build copies and hashes the blocks of a group into its buffer. What is
// hashed is the store's own copy: bytes that change under the caller's hands
// are caught by a seal, not stored under a wrong sum.
func (p *putBatch) build(items []*putItem) error {
	tasks := buildTasks(items)
	if !p.s.parallel(len(tasks), func(i int) bool { return p.buildTask(tasks[i]) }) {
		return errAbandonedPut
	}
	for _, it := range items {
		if it.gone.Load() == nil {
			it.img.finish()
		}
	}
	return nil
}

// buildTask works on one task inside the caller's memory; false: it left.
func (p *putBatch) buildTask(task []buildPiece) bool {
	for i := range task {
		if !p.op.enter() {
			return false
		}
		p.fill(&task[i])
		p.op.exit()
	}
	return true
}

// fill copies a piece from the caller's memory, which may be going away.
func (p *putBatch) fill(b *buildPiece) {
	if !b.it.guarded {
		b.fill()
		return
	}
	if b.it.gone.Load() != nil {
		return
	}
	if err := p.s.touchGuarded(b.source.Spans, func() error { b.fill(); return nil }); err != nil {
		b.it.gone.CompareAndSwap(nil, &err)
	}
}

// buildTasks cuts blocks into tasks.
func buildTasks(items []*putItem) (tasks [][]buildPiece) {
	var task []buildPiece
	bytes := int64(0)
	for _, it := range items {
		for _, piece := range it.pieces() {
			task = append(task, piece)
			if bytes += piece.n; bytes >= buildTaskBytes {
				tasks, task, bytes = append(tasks, task), nil, 0
			}
		}
	}
	if len(task) > 0 {
		tasks = append(tasks, task)
	}
	return tasks
}

func (it *putItem) pieces() (out []buildPiece) {
	m, chunk := it.img, 0
	for i := range it.planes {
		size := m.ext.Planes[i].RawBytes
		for off := int64(0); off < size; {
			n := min(size-off, buildPieceChunks*sums.ChunkBytes)
			out = append(out, buildPiece{it, m, it.planes[i], i, off, n, chunk})
			off, chunk = off+n, chunk+sums.ChunkCount(n)
		}
	}
	return out
}

// fill copies and takes the sums in one pass, a chunk at a time, so that each
// chunk is hashed while it is still in cache.
func (b *buildPiece) fill() {
	src := spanReader{spans: append([][]byte(nil), b.source.Spans...)}
	src.skip(b.off)
	dst := b.img.payload()[b.img.ext.Planes[b.plane].OffsetBytes+b.off:][:b.n]
	for i := b.chunk; len(dst) > 0; i++ {
		c := dst[:min(len(dst), sums.ChunkBytes)]
		src.read(c)
		b.img.ext.Chunks[i].RawSum = sums.Chunk(c)
		dst = dst[len(c):]
	}
}

// finish zeroes what fills up the planes' last pages, and takes the content
// id from the sums.
func (m *image) finish() {
	payload, end := m.payload(), int64(0)
	lens := make([]int64, len(m.ext.Planes))
	for i := range m.ext.Planes {
		pl := &m.ext.Planes[i]
		lens[i] = pl.RawBytes
		clear(payload[end:pl.OffsetBytes])
		end = pl.OffsetBytes + pl.RawBytes
	}
	clear(payload[end:])
	rawSums := make([]uint64, len(m.ext.Chunks))
	for i := range m.ext.Chunks {
		rawSums[i] = m.ext.Chunks[i].RawSum
	}
	m.ext.ContentID = sums.Content(lens, rawSums)
}

// buildAlone builds a block that is not to be written; the caller frees the
// buffer.
func (p *putBatch) buildAlone(it *putItem) (*aligned.Buffer, error) {
	it.img = &image{ext: p.n.extentOf(&p.blocks[it.i], it.planes, 0, it.depth)}
	it.img.decided = true // it is only looked at
	buf, err := p.buffer(it.img.ext.Pages() * disk.PageBytes)
	if err != nil {
		return nil, err
	}
	it.img.buf = buf
	err = p.build([]*putItem{it})
	if gone := it.gone.Load(); err == nil && gone != nil {
		err = *gone
	}
	if err != nil {
		buf.Free()
		return nil, err
	}
	return buf, nil
}

// buffer takes memory for images. It is not waited for: a put that finds none
// is shed.
func (p *putBatch) buffer(sizeBytes int) (*aligned.Buffer, error) {
	buf, err := p.s.pool.TryGet(sizeBytes)
	if errors.Is(err, aligned.ErrExhausted) {
		return nil, fmt.Errorf("%w: %d bytes of puts and gets are in flight (MaxInflightBytes): %w", ErrShed, p.s.o.MaxInflightBytes, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: buffer for a put: %w", ErrShed, err)
	}
	return buf, nil
}
