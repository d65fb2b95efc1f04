package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/sealstone/sealstone/internal/sums"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// scrubFile keeps where the scrubber is; docs/format/scrub.md. It may be lost,
// damaged or old at any time: then a cycle begins anew.
const scrubFile = "SCRUB"

// Position of the scrubber, little endian (offset, field, size):
//
//	┌─────────────────────────────────────────────────┐
//	│   0  magic "SLSTSCRB"                         8 │
//	│   8  version, 1                               2 │
//	│  10  zero                                     2 │
//	│  12  feature bits: incompatible               4 │
//	│  16                read-only compatible       4 │
//	│  20                compatible                 4 │
//	│  24  sum                                      8 │
//	│  32  store uuid                              16 │
//	│  48  written at                               8 │
//	│  56  segment that is next                     8 │
//	│  64  page that is next in it                  4 │
//	│  68  zero                                     4 │
//	│  72  first segment of the next cycle          8 │
//	│  80  cycle under way                         96 │
//	│ 176  last cycle that ended                   96 │
//	└─────────────────────────────────────────────────┘
//
// A cycle: number, start, end, blocks, bytes, segments, bad, damaged,
// unreadable, skipped, transient, cached bytes, 8 bytes each.
const (
	scrubFileBytes  = 272
	scrubMagic      = "SLSTSCRB"
	scrubVersion    = 1
	scrubCycleAt    = 80
	scrubLastAt     = 176
	scrubCycleWords = 12
)

// scrubPosition is what the file says.
type scrubPosition struct {
	written time.Time
	at      disk.Address
	end     uint64
	cycle   ScrubCycle
	last    ScrubCycle
}

var errScrubFile = errors.New("engine: SCRUB does not hold a position")

func encodeScrub(pos scrubPosition, uuid [16]byte, k sums.Key) []byte {
	p := make([]byte, scrubFileBytes)
	le := binary.LittleEndian
	copy(p, scrubMagic)
	le.PutUint16(p[8:], scrubVersion)
	copy(p[32:], uuid[:])
	le.PutUint64(p[48:], unixNanos(pos.written))
	le.PutUint64(p[56:], pos.at.Segment)
	le.PutUint32(p[64:], pos.at.Page)
	le.PutUint64(p[72:], pos.end)
	putScrubCycle(p[scrubCycleAt:], &pos.cycle)
	putScrubCycle(p[scrubLastAt:], &pos.last)
	le.PutUint64(p[24:], scrubSum(p, k))
	return p
}

func scrubSum(p []byte, k sums.Key) uint64 { return k.Sum(sums.DomainScrub, p[:24], p[32:]) }

// decodeScrub reads a position. What is of a later version, or has a feature
// that this release does not know, is no position to it either.
func decodeScrub(p []byte, uuid [16]byte, k sums.Key) (pos scrubPosition, err error) {
	le := binary.LittleEndian
	switch {
	case len(p) != scrubFileBytes:
		return pos, fmt.Errorf("%w: %d bytes, want %d", errScrubFile, len(p), scrubFileBytes)
	case string(p[:8]) != scrubMagic:
		return pos, fmt.Errorf("%w: magic %q", errScrubFile, p[:8])
	case le.Uint64(p[24:]) != scrubSum(p, k):
		return pos, fmt.Errorf("%w: its sum does not match", errScrubFile)
	case le.Uint16(p[8:]) != scrubVersion || le.Uint32(p[12:]) != 0 || le.Uint32(p[16:]) != 0:
		return pos, fmt.Errorf("%w: version %d, features %x %x", errScrubFile, le.Uint16(p[8:]), le.Uint32(p[12:]), le.Uint32(p[16:]))
	case [16]byte(p[32:]) != uuid:
		return pos, fmt.Errorf("%w: it is of another store", errScrubFile)
	}
	pos = scrubPosition{
		written: fromUnixNanos(le.Uint64(p[48:])),
		at:      disk.Address{Segment: le.Uint64(p[56:]), Page: le.Uint32(p[64:])},
		end:     le.Uint64(p[72:]),
	}
	if pos.cycle, err = getScrubCycle(p[scrubCycleAt:]); err == nil {
		pos.last, err = getScrubCycle(p[scrubLastAt:])
	}
	if err == nil && pos.cycle.Number == 0 {
		err = fmt.Errorf("%w: no cycle", errScrubFile)
	}
	return pos, err
}

// scrubWords are the numbers of a cycle that are counts, in order.
func (t *ScrubTotals) scrubWords() [9]*int64 {
	return [9]*int64{&t.Blocks, &t.Bytes, &t.Segments, &t.Bad, &t.Damaged, &t.Unreadable, &t.Skipped, &t.Transient, &t.CachedBytes}
}

func putScrubCycle(p []byte, c *ScrubCycle) {
	le := binary.LittleEndian
	le.PutUint64(p, c.Number)
	le.PutUint64(p[8:], unixNanos(c.Start))
	le.PutUint64(p[16:], unixNanos(c.End))
	for i, n := range c.scrubWords() {
		le.PutUint64(p[24+8*i:], uint64(*n))
	}
}

func getScrubCycle(p []byte) (c ScrubCycle, err error) {
	le := binary.LittleEndian
	c.Number, c.Start, c.End = le.Uint64(p), fromUnixNanos(le.Uint64(p[8:])), fromUnixNanos(le.Uint64(p[16:]))
	for i, n := range c.scrubWords() {
		v := le.Uint64(p[24+8*i:])
		if v > math.MaxInt64 {
			return c, fmt.Errorf("%w: a count of %d", errScrubFile, v)
		}
		*n = int64(v)
	}
	return c, nil
}

// unixNanos is a time as the file has it; 0 is none.
func unixNanos(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(t.UnixNano())
}

func fromUnixNanos(n uint64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, int64(n))
}

// readScrub reads the position that was kept, if there is a good one.
func readScrub(fsys vfs.FS, uuid [16]byte, k sums.Key) (pos scrubPosition, err error) {
	info, err := fsys.Stat(scrubFile)
	if err != nil {
		return pos, err
	}
	if !info.IsRegular || info.SizeBytes != scrubFileBytes {
		return pos, fmt.Errorf("%w: %d bytes, want %d", errScrubFile, info.SizeBytes, scrubFileBytes)
	}
	f, err := fsys.Open(scrubFile, 0)
	if err != nil {
		return pos, err
	}
	defer f.Close()
	p := make([]byte, scrubFileBytes)
	if n, err := f.ReadAt(p, 0); n < len(p) || err != nil && err != io.EOF {
		return pos, err
	}
	return decodeScrub(p, uuid, k)
}

// load takes up the cycle of the last run. The time for which the store was
// closed counts as part of the cycle, but some is left for the rest, whatever
// the clock says.
func (b *scrubber) load() {
	pos, err := readScrub(b.s.fs, b.s.uuid, b.s.key)
	if err != nil {
		if !vfs.IsNotExist(err) {
			b.s.event(EventScrub, "%s is passed over, a cycle begins: %v", scrubFile, err)
		}
		return
	}
	now := b.clock()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last = pos.last
	b.cycle = scrubCycle{ScrubCycle: pos.cycle, at: pos.at, end: pos.end}
	// A clock that was set back says nothing about the time that passed.
	b.rebaseLocked(now, max(now.Sub(pos.cycle.Start), pos.written.Sub(pos.cycle.Start)))
	b.saved = now
}

func (b *scrubber) saveIfDue(now time.Time) {
	b.mu.Lock()
	due := now.Sub(b.saved) >= scrubSaveEvery || now.Before(b.saved)
	b.mu.Unlock()
	if due {
		b.save()
	}
}

// save writes the position down if it is news. Failure costs a part of a
// cycle, so it is passed over; a store that can not write is left alone.
func (b *scrubber) save() {
	if b.s.health.get().State != HealthOK {
		return
	}
	b.mu.Lock()
	b.saved = b.seen
	pos := scrubPosition{written: b.seen, at: b.cycle.at, end: b.cycle.end, cycle: b.cycle.ScrubCycle, last: b.last}
	dirty := b.dirty && pos.cycle.Number > 0
	b.dirty = false
	b.mu.Unlock()
	if !dirty {
		return
	}
	if err := b.s.replaceQuietly(scrubFile, encodeScrub(pos, b.s.uuid, b.s.key)); err != nil {
		b.s.o.Logger.Warn("sealstone: the scrubber's position is not kept", "dir", b.s.dir, "err", err)
	}
}
