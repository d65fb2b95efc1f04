package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sealstone/sealstone/tools/internal/stamp"
)

// stage is an open store with the buffers of its workers.
type stage struct {
	dir     string
	store   Store
	shape   Shape
	buffers [][]byte // by worker
	frees   []func()
	set     int      // of the blocks that are stored
	hashes  [][]byte // of the set
	filled  bool
	checked bool // every page of every block was looked at
}

// roomBytes is the part of a small store that is not for blocks: what the log
// and the index reserve.
const roomBytes = 512 << 20

// capacity has half as much again as the blocks of a stage: headers, blocks
// that fill no segment to its end.
func (c Config) capacity() int64 {
	if c.CapacityBytes > 0 {
		return c.CapacityBytes
	}
	return c.storedBytes()*3/2 + roomBytes + spareSegments*c.segmentBytes()
}

// storedBytes is what the blocks of a stage take.
func (c Config) storedBytes() int64 {
	blocks := int64(c.blocks())
	if c.hasWorkload(Mixed) {
		blocks += blocks * int64(c.Rounds)
	}
	perBlock := c.BlockBytes + int64(max(c.Planes, 1)+1)*stamp.Every
	if c.hasWorkload(Ranges) {
		perBlock += rangePlanes * stamp.Every
	}
	return blocks * perBlock
}

const (
	// largeSegmentBytes is a segment of a store of 16 GiB. A store that is
	// just large enough for a bench has some of 64 MiB, and the syncs that each
	// of them costs would be more of the work than in any store in use.
	largeSegmentBytes = 256 << 20
	// spareSegments are those that a store keeps open or free.
	spareSegments = 5
)

// segmentBytes is the size of segments; 0 leaves it to the engine: for little
// data, and where the capacity is given.
func (c Config) segmentBytes() int64 {
	if c.CapacityBytes > 0 || c.storedBytes() < 4*largeSegmentBytes {
		return 0
	}
	return largeSegmentBytes
}

// open makes a store of its own for blocks with so many planes.
func (b *bench) open(ctx context.Context, planes int) (_ *stage, err error) {
	b.stages++
	c := b.config
	batchBytes := int64(c.BatchBlocks) * c.BlockBytes
	s := &stage{
		dir: filepath.Join(c.Dir, fmt.Sprintf("store-%d", b.stages)), set: b.stages,
		shape: Shape{
			BlockBytes: c.BlockBytes, Planes: planes, CapacityBytes: c.capacity(), SegmentBytes: c.segmentBytes(),
			InflightBytes: int64(c.Concurrency) * batchBytes, Depth: c.Depth, Path: c.Path, Bounce: c.Bounce,
		},
	}
	if b.chosen.Name != "" {
		s.shape.Path = b.chosen.Name
	}
	if s.store, err = c.Open(ctx, s.dir, s.shape); err != nil {
		return nil, errors.Join(fmt.Errorf("bench: open a store: %w", err), os.RemoveAll(s.dir))
	}
	if b.chosen.Name == "" {
		b.chosen = s.store.Path()
	}
	for i := range c.blocks() {
		hash := stamp.Ref(s.set, i).Hash()
		s.hashes = append(s.hashes, hash[:])
	}
	for range c.Concurrency {
		p, free, err := s.store.NewBuffer(int(batchBytes))
		if err != nil {
			return nil, errors.Join(fmt.Errorf("bench: make a buffer: %w", err), s.close(ctx))
		}
		s.buffers, s.frees = append(s.buffers, p), append(s.frees, free)
		stamp.Base(p)
	}
	return s, nil
}

// close removes the store, too. It goes to its end even when ctx is over: a
// bench leaves nothing behind.
func (s *stage) close(ctx context.Context) error {
	if s == nil {
		return nil
	}
	for _, free := range s.frees {
		free()
	}
	s.frees, s.buffers = nil, nil
	err := s.store.Close(context.WithoutCancel(ctx))
	if err != nil {
		err = fmt.Errorf("bench: close the store: %w", err)
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}

// readStage is the stage that holds all blocks, with the planes that a
// workload wants; the last one is used again where it fits.
func (b *bench) readStage(ctx context.Context, name string) (*stage, error) {
	planes := b.config.planes(name)
	if b.last != nil && b.last.shape.Planes == planes {
		return b.last, nil
	}
	if err := b.keep(ctx, nil); err != nil {
		return nil, err
	}
	s, err := b.open(ctx, planes)
	if err != nil {
		return nil, err
	}
	b.last = s
	fill := task{what: name + ": fill", workload: Offload}
	m, err := b.round(ctx, s, fill)
	if err == nil && m.failed > 0 {
		err = fmt.Errorf("%w: %d of %d puts that fill the store failed (%v); give it more capacity",
			ErrIncomplete, m.failed, b.config.blocks(), m.firstErr)
	}
	return s, err
}

// keep closes the stage that was kept and keeps another one.
func (b *bench) keep(ctx context.Context, s *stage) error {
	old := b.last
	b.last = s
	return old.close(ctx)
}
