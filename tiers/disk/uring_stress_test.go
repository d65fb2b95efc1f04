package disk

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/uring"
	"github.com/sealstone/sealstone/tiers"
)

// Callers that read, write and leave at any time, over rings that break again
// and again: every answer is right, and nothing is left behind.
func TestUringStress(t *testing.T) {
	noLeaks(t)
	f := newRingFile(t)
	var enters, completions atomic.Int64
	u, _ := faultReader(t, UringOptions{Rings: 3, Depth: 24, rebuilds: 1 << 30, open: lying(faultRing{
		before: func() error {
			if enters.Add(1)%97 == 0 {
				return syscall.EFAULT
			}
			return nil
		},
		next: func(c uring.CQE) uring.CQE {
			switch completions.Add(1) % 101 {
			case 7:
				c.Res = -int32(syscall.EAGAIN)
			case 31:
				c.UserData += 1 << 32
			case 63:
				c.Res = min(c.Res, 8192)
			}
			return c
		},
	})})
	const callers, rounds = 6, 60
	var wg sync.WaitGroup
	for n := range callers {
		items := ringBatch(t, f, 8)
		mine := blockItem(t, f) // a block behind what the others read
		mine.Offset = int64(512+n*4) << 10
		wg.Go(func() {
			for round := range rounds {
				ctx, cancel := context.WithCancel(context.Background())
				if n%2 == 0 {
					go cancel()
				}
				if err := u.ReadBatch(ctx, items); err != nil {
					t.Error(err)
				}
				cancel()
				for _, it := range items {
					if it.Err == nil && !bytes.Equal(bytes.Join(it.Spans, nil), f.content[it.Offset:][:it.Length]) {
						t.Errorf("read %d+%d by %v: wrong bytes", it.Offset, it.Length, it.Path)
					}
					if it.Err != nil && !errors.Is(it.Err, tiers.ErrAbandoned) {
						t.Error(it.Err)
					}
				}
				w := []tiers.Item{mine}
				for i := range mine.Spans[0] {
					mine.Spans[0][i] = byte(n + round*callers)
				}
				if err := u.WriteBatch(w); err != nil || w[0].Err != nil {
					t.Errorf("write: %v, %v", err, w[0].Err)
				}
			}
		})
	}
	wg.Wait()
	for n := range callers {
		got := make([]byte, 4096)
		_, err := f.buffered.ReadAt(got, int64(512+n*4)<<10)
		must(t, err)
		if want := byte(n + (rounds-1)*callers); got[0] != want || bytes.Count(got, got[:1]) != len(got) {
			t.Errorf("block %d begins with %d, want %d throughout", n, got[0], want)
		}
	}
	if s := u.Stats(); s.Rebuilt == 0 || s.InFlight != 0 || s.Queued != 0 {
		t.Errorf("in the end: %+v", s)
	}
}
