package disk

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers"
)

// How much a measurement moves. What it moves is also bounded by time: a
// probe wants an order of the paths, and no benchmark.
const (
	DefaultMeasureBytes = 64 << 20
	MinMeasureBytes     = 1 << 20 // less is not worth measuring
	measureItemBytes    = 1 << 20
	measureItems        = 8                      // in flight
	measureTime         = 150 * time.Millisecond // of each pass
	measureTimeQuick    = 50 * time.Millisecond
	measureFreeShare    = 20 // at most 1/20 of the free space
	measureTurns        = 3  // of reads, as far as the time of one pass lasts
)

// speedTest measures on the scratch file, whose content it overwrites.
type speedTest struct {
	file     *scratchFile
	src, dst *aligned.Buffer
	items    []tiers.Item
	// sizeBytes is what every pass moves at most: what the first pass wrote.
	sizeBytes int64
	passMax   time.Duration
}

// measure times each proven path, writing and then reading with the reader
// that a store would use. The reads take turns, and the best turn of each
// counts: what else the machine does slows down a turn, and not a path.
func (p *prober) measure(ctx context.Context) {
	if p.file == nil || p.file.readOnly || p.file.buffered.Fd() == vfs.InvalidFd {
		return
	}
	t, err := p.newSpeedTest()
	if err == nil {
		defer t.free()
		err = t.prepare(p.r.Proven(PathPread))
	}
	if err != nil {
		p.note("speed was not measured: %v", err)
		return
	}
	var runners []*speedRunner
	for i := range p.r.Paths {
		if path := &p.r.Paths[i]; path.State == PathProven {
			r, err := t.runner(path)
			if err != nil {
				p.refuse(path.Name, doing("measure", err))
				continue
			}
			defer r.reader.close()
			runners = append(runners, r)
		}
	}
	p.eachRunner(ctx, runners, t.timeWrite)
	for range measureTurns {
		p.eachRunner(ctx, runners, t.timeRead)
	}
}

// eachRunner has every path run that is still in the race.
func (p *prober) eachRunner(ctx context.Context, runners []*speedRunner, run func(context.Context, *speedRunner) error) {
	for _, r := range runners {
		if r.path.State != PathProven || ctx.Err() != nil {
			continue
		}
		err := run(ctx, r)
		if cannotWrite(err) {
			p.note("%s was not measured: %v", r.path.Name, err)
		} else if err != nil {
			p.refuse(r.path.Name, doing("measure", err))
		}
	}
}

func (p *prober) newSpeedTest() (*speedTest, error) {
	size := min(orDefault(p.o.MeasureBytesMax, DefaultMeasureBytes), p.r.Filesystem.AvailableBytes/measureFreeShare)
	if size &^= measureItemBytes - 1; size < MinMeasureBytes {
		return nil, fmt.Errorf("there is room for %d bytes, which is too little", size)
	}
	t := &speedTest{file: p.file, sizeBytes: size, passMax: measureTime}
	if p.o.Quick {
		t.passMax = measureTimeQuick
	}
	var err error
	if t.src, err = aligned.Alloc(measureItems * measureItemBytes); err != nil {
		return nil, err
	}
	if t.dst, err = aligned.Alloc(measureItems * measureItemBytes); err != nil {
		t.free()
		return nil, err
	}
	_, _ = p.trial.rand.Read(t.src.Bytes()) // never fails
	t.items = make([]tiers.Item, min(measureItems, int(size/measureItemBytes)))
	return t, nil
}

func (t *speedTest) free() {
	t.src.Free()
	t.dst.Free()
}

// prepare writes the file once, so that no pass pays for its growth, and
// keeps as much of it as one pass can write.
func (t *speedTest) prepare(direct bool) error {
	if err := t.file.buffered.Preallocate(0, t.sizeBytes); err != nil {
		return err
	}
	name := PathBuffered
	if direct {
		name = PathPread
	}
	r, err := t.runner(&ProbePath{Name: name})
	if err != nil {
		return err
	}
	defer r.reader.close()
	moved, _, err := t.pass(context.Background(), r, t.src, true)
	t.sizeBytes = moved
	return err
}

// speedRunner is a path in the race.
type speedRunner struct {
	path   *ProbePath
	file   tiers.File
	reader *pathReader
	used   time.Duration // by reads
}

func (t *speedTest) runner(path *ProbePath) (*speedRunner, error) {
	pool := aligned.NewPool(2 * measureItems * measureItemBytes)
	rw, err := newPathReader(path.Name, pool)
	if err != nil {
		return nil, err
	}
	return &speedRunner{path: path, file: &speedFile{t.file, path.Name != PathBuffered}, reader: &pathReader{rw, pool}}, nil
}

// timeWrite writes the file once.
func (t *speedTest) timeWrite(ctx context.Context, r *speedRunner) error {
	moved, took, err := t.pass(ctx, r, t.src, true)
	if err == nil {
		r.path.WriteMiBs = mibPerSecond(moved, took)
	}
	return err
}

// timeRead reads the file once, unless the path has used up its time.
func (t *speedTest) timeRead(ctx context.Context, r *speedRunner) error {
	if r.used >= t.passMax {
		return nil
	}
	_ = t.file.buffered.DropCache(0, t.sizeBytes) // a hint
	clear(t.dst.Bytes())
	cpu := processCPU()
	moved, took, err := t.pass(ctx, r, t.dst, false)
	if err != nil {
		return err
	}
	cpu = processCPU() - cpu
	r.used += took
	if speed := mibPerSecond(moved, took); speed > r.path.ReadMiBs {
		r.path.ReadMiBs = speed
		r.path.CPUSecondsPerGiB = cpu.Seconds() * (1 << 30) / float64(max(moved, 1))
	}
	if via := t.items[0].Path; r.path.Name != PathBuffered && moved > 0 && via != tiers.PathDirect {
		return fmt.Errorf("the reader went another way: %v", via)
	}
	n := len(t.items) * measureItemBytes
	if moved >= int64(n) && !bytes.Equal(t.src.Bytes()[:n], t.dst.Bytes()[:n]) {
		return fmt.Errorf("%w: a batch read while measuring gave other bytes than were written", errContent)
	}
	return nil
}

func mibPerSecond(bytes int64, took time.Duration) float64 {
	return float64(bytes) / (1 << 20) / max(took.Seconds(), 1e-6)
}

// pass moves batches until the size or the time is reached. A pass that
// writes ends with a sync.
func (t *speedTest) pass(ctx context.Context, r *speedRunner, buf *aligned.Buffer, write bool) (moved int64, took time.Duration, err error) {
	start := time.Now()
	batch := int64(len(t.items)) * measureItemBytes
	for ; moved+batch <= t.sizeBytes && ctx.Err() == nil; moved += batch {
		for i := range t.items {
			at := i * measureItemBytes
			t.items[i] = tiers.Item{
				File: r.file, Offset: moved + int64(at), Length: measureItemBytes,
				Spans: [][]byte{buf.Bytes()[at : at+measureItemBytes]}, OffHeap: true, WaitForDevice: true,
			}
		}
		if write {
			err = r.reader.WriteBatch(t.items)
		} else {
			err = r.reader.ReadBatch(context.Background(), t.items)
		}
		for i := range t.items {
			if err == nil {
				err = t.items[i].Err
			}
		}
		if err != nil {
			return moved, time.Since(start), err
		}
		if time.Since(start) > t.passMax {
			moved += batch
			break
		}
	}
	if write {
		err = t.file.buffered.Datasync()
	}
	return moved, time.Since(start), err
}

// pathReader is the reader of a path with the pool that it needs.
type pathReader struct {
	tiers.ReadWriter
	pool *aligned.Pool
}

// close waits for the reader: all that it was given has been answered.
func (r *pathReader) close() {
	_ = r.Close(context.Background())
	_ = r.pool.Close()
}

// speedFile is the scratch file as a reader sees it, past the page cache or
// through it only. Nothing is ever given up, so nobody needs its references.
type speedFile struct {
	s      *scratchFile
	direct bool
}

// ID implements tiers.File.
func (f *speedFile) ID() uint64 { return 0 }

// File implements tiers.File.
func (f *speedFile) File(direct bool) vfs.File {
	switch {
	case !direct:
		return f.s.buffered
	case f.direct && f.s.direct != nil:
		return f.s.direct
	}
	return nil
}

// Retain implements tiers.File.
func (f *speedFile) Retain() {}

// Release implements tiers.File.
func (f *speedFile) Release() {}

// newPathReader makes the reader of a path.
func newPathReader(name PathName, pool *aligned.Pool) (tiers.ReadWriter, error) {
	switch name {
	case PathUring:
		return NewUringReader(UringOptions{Depth: measureItems, Pread: PreadOptions{Workers: measureItems, Pool: pool}})
	default:
		return NewPreadReader(PreadOptions{Workers: measureItems, Pool: pool, Buffered: name == PathBuffered})
	}
}
