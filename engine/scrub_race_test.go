package engine

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// TestScrubClose: a scrub that waits for a device does not hold up its caller;
// Close waits for the device as it does for gets, and leaves nothing behind.
func TestScrubClose(t *testing.T) {
	checkLeaks(t)
	s, _, fs, _ := stalledStore(t, vfs.OpRead, "segments/")
	fs.stall(t)
	ctx, cancel := context.WithCancel(context.Background())
	wait := start(t, "a scrub whose caller leaves", func() error {
		_, err := s.ScrubNow(ctx, ScrubOptions{})
		return err
	})
	eventually(t, "the scrub is with the device", func() bool { return fs.stalled.Load() > 0 })
	cancel()
	if err := wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("the caller left: %v", err)
	}
	if err := s.Close(withSoon(t)); !errors.Is(err, ErrClosing) {
		t.Fatalf("close on a stalled device: %v", err)
	}
	if _, err := s.ScrubNow(context.Background(), ScrubOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a scrub of a store that is closing: %v", err)
	}
	fs.release()
	mustClose(t, s)
}

// TestScrubBackground: the goroutine of a real store goes through cycles while
// it is put to, read and dropped from, evicted and scrubbed by hand, and ends
// with it. What it finds is nothing.
func TestScrubBackground(t *testing.T) {
	checkLeaks(t)
	o := liveOptions(vfs.NewMem())
	var clock atomic.Int64
	clock.Store(time.Unix(1_700_000_000, 0).UnixNano())
	o.private.now = func() time.Time { return time.Unix(0, clock.Load()) }
	o.private.sleep = func(ctx context.Context, d time.Duration) error {
		clock.Add(int64(d))
		time.Sleep(50 * time.Microsecond)
		return context.Cause(ctx)
	}
	o.ScrubCycle, o.CapacityBytes = time.Hour, 4*mib
	s := mustOpen(t, o)
	n := mustSpace(t, s)
	var stop atomic.Bool
	var wg sync.WaitGroup
	for w := range 3 {
		wg.Go(func() {
			for i := 0; !stop.Load(); i++ {
				id := 1000*w + i%60
				switch r := putOne(n, blockOf(id, 0, 20000)); r.Status {
				case StatusOK, StatusShed:
				default:
					t.Errorf("put: %v %v", r.Status, r.Err)
				}
				p, b := getParts(id, 20000)
				if r := n.Get(context.Background(), []GetBlock{b}, GetOptions{})[0]; r.Status == StatusOK && variantOf(id, p, 1) != 0 {
					t.Error("WRONG BYTES with status OK")
				}
				if i%7 == 0 {
					n.Drop(context.Background(), [][]byte{hashOf(id)})
				}
			}
		})
	}
	wg.Go(func() {
		for !stop.Load() {
			if _, err := s.ScrubNow(context.Background(), ScrubOptions{}); err != nil {
				t.Errorf("scrub: %v", err)
			}
			if _, err := s.EvictOnce(context.Background()); err != nil {
				t.Errorf("evict: %v", err)
			}
		}
	})
	cycles := uint64(3)
	if fullTests {
		cycles = 100
	}
	eventually(t, "cycles have ended", func() bool {
		time.Sleep(time.Millisecond)
		return s.scrubStats().Last.Number >= cycles
	})
	stop.Store(true)
	wg.Wait()
	st := s.scrubStats()
	if st.Total.Blocks == 0 || st.Total.Bad+st.Total.Damaged+st.Total.Unreadable+st.Total.Transient != 0 {
		t.Errorf("%v; %q", st.Total, scrubLines(s))
	}
	mustClose(t, s)
	wantNoBuffers(t, s)
}

// TestScrubCompressed: compressed chunks are verified as they are stored and as
// they decode, in extents of several pieces.
func TestScrubCompressed(t *testing.T) {
	squeezed(t, CompressionS2, CompressionZstd, CompressionOff)
	mem := vfs.NewMem()
	o := scrubOptionsFor(mem, newScrubClock())
	o.MaxBlockBytes, o.SegmentBytes, o.CapacityBytes, o.MaxInflightBytes = 2*mib, 4*mib, 32*mib, 8*mib
	s := mustOpen(t, o)
	defer mustClose(t, s)
	spaces := []*Namespace{mustSpace(t, s), mustSpace(t, s), mustSpace(t, s)}
	sizes := []int{3, 70_000, 1_500_000}
	for i, size := range sizes {
		for j, n := range spaces {
			mustPut(t, n, blockOf(10*i+j, 0, size))
		}
	}
	mustFlushByHand(t, s)
	r := mustScrub(t, s)
	wantNoFinding(t, r)
	if want := int64(len(sizes) * len(spaces)); r.Blocks != want || s.Stats().CompressStoredBytes == 0 {
		t.Errorf("%d blocks, want %d", r.Blocks, want)
	}
	bad := []int{10, 21, 22} // one of each codec, at their ends
	for _, id := range bad {
		e := entryOf(t, s, spaces[0], id)
		flipByte(t, mem, disk.SegmentName(e.Address.Segment), lastUsed(t, mem, e.Address.Offset()+e.Bytes(), disk.SegmentName(e.Address.Segment)))
	}
	if r := mustScrub(t, s); r.Bad != int64(len(bad)) || r.Blocks != int64(len(sizes)*len(spaces)-len(bad)) {
		t.Errorf("%v %v", r.ScrubTotals, r.Findings)
	}
	for _, id := range bad {
		wantStatus(t, spaces[0], id, sizes[id/10], StatusCorrupt)
	}
}

// lastUsed is where the last byte before an offset lies that is not zero.
func lastUsed(t testing.TB, fs vfs.FS, before int64, file string) int64 {
	t.Helper()
	p := readWhole(t, fs, file)
	for before--; p[before] == 0; before-- {
	}
	return before
}
