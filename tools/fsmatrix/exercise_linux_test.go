package fsmatrix

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tiers/disk"
)

const (
	exerciseBlocks = 64
	dropped        = 9    // the block that is dropped
	fillBlocks     = 1000 // of all sizes, until something has to go
)

// report is what an exercise found out, as a child process prints it.
type report struct {
	Probe *disk.ProbeReport
	// PathRead is the path of the reads.
	PathRead string
	Evicted  int64
	// Err is what went wrong; PathRefused says that it was ErrPathRefused.
	Err         string
	PathRefused bool
}

// exercise takes a store through its life in dir, which it may have to create:
// puts, gets of whole blocks, of ranges and into the store's own memory, a
// drop, a close, Verify, a reopen and the same gets again; with fill also puts
// past the capacity. Every byte is compared.
func exercise(ctx context.Context, dir string, path engine.PathChoice, fill bool) (*report, error) {
	r, err := firstLife(ctx, dir, path, fill)
	if err != nil {
		return r, err
	}
	v, err := engine.Verify(ctx, dir, engine.VerifyOptions{})
	if err != nil {
		return r, fmt.Errorf("verify: %w", err)
	}
	if v.Damaged != 0 {
		return r, fmt.Errorf("verify: %d damages: %+v", v.Damaged, v.Damage)
	}
	return r, secondLife(ctx, dir, path, fill)
}

func firstLife(ctx context.Context, dir string, path engine.PathChoice, fill bool) (r *report, err error) {
	s, err := engine.Open(dir, options(path))
	if err != nil {
		return nil, fmt.Errorf("open: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	r = &report{Probe: s.ProbeReport()}
	n, err := space(ctx, s)
	if err != nil {
		return r, err
	}
	for from := 0; from < exerciseBlocks; from += 16 {
		if err := allOK(put(ctx, n, from, from+16, from%32 == 0)); err != nil {
			return r, fmt.Errorf("put: %w", err)
		}
	}
	if err := reads(ctx, s, n, exerciseBlocks); err != nil {
		return r, err
	}
	if d := n.Drop(ctx, [][]byte{hashOf(dropped)})[0]; d.Status != engine.StatusOK {
		return r, fmt.Errorf("drop: %v: %w", d.Status, d.Err)
	}
	if fill {
		if err := fillUp(ctx, s, n); err != nil {
			return r, err
		}
	}
	if err := s.Flush(ctx); err != nil {
		return r, fmt.Errorf("flush: %w", err)
	}
	st := s.Stats()
	r.PathRead, r.Evicted = st.PathRead, st.EvictedBlocks
	if h := s.Health(); h.State != engine.HealthOK {
		return r, fmt.Errorf("health %v %v", h.State, h.Reasons)
	}
	return r, nil
}

// reads gets blocks [0, to) in every way.
func reads(ctx context.Context, s *engine.Store, n *engine.Namespace, to int) error {
	got, err := get(ctx, n, 0, to)
	if err != nil {
		return err
	}
	if err := allOK(got); err != nil {
		return fmt.Errorf("get: %w", err)
	}
	for id := range to {
		if err := getDevice(ctx, s, n, id); err != nil {
			return err
		}
		size := sizeOf(id)
		for _, c := range [][2]int{{0, 1}, {size / 2, size - size/2}, {size - 1, 1}, {size / 3, (size + 2) / 3}} {
			if c[1] == 0 {
				continue
			}
			if err := getRange(ctx, n, id, c[0], c[1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// fillUp puts more than the store can hold. A put may be shed meanwhile; what
// is not there any more is a miss.
func fillUp(ctx context.Context, s *engine.Store, n *engine.Namespace) error {
	const first = 10_000
	for from := first; from < first+fillBlocks; from += 20 {
		for _, p := range put(ctx, n, from, from+20, false) {
			switch p.Status {
			case engine.StatusOK:
			case engine.StatusShed:
				if err := s.Flush(ctx); err != nil {
					return fmt.Errorf("flush: %w", err)
				}
			default:
				return fmt.Errorf("put past the capacity: %v: %w", p.Status, p.Err)
			}
		}
	}
	if st := s.Stats(); st.EvictedBlocks == 0 || st.DiskBytesMax > st.CapacityBytes {
		return fmt.Errorf("%d blocks evicted, %d bytes at most, capacity %d", st.EvictedBlocks, st.DiskBytesMax, st.CapacityBytes)
	}
	hits := 0
	for from := first; from < first+fillBlocks; from += 50 {
		got, err := get(ctx, n, from, from+50)
		if err != nil {
			return err
		}
		for _, g := range got {
			switch g.Status {
			case engine.StatusOK:
				hits++
			case engine.StatusMiss:
			default:
				return fmt.Errorf("get past the capacity: %v: %w", g.Status, g.Err)
			}
		}
	}
	if hits == 0 {
		return errors.New("nothing is left of what was put")
	}
	return nil
}

// secondLife finds everything again, but for what was dropped or evicted.
func secondLife(ctx context.Context, dir string, path engine.PathChoice, fill bool) (err error) {
	o := options(path)
	o.MustExist = true
	s, err := engine.Open(dir, o)
	if err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	n, err := space(ctx, s)
	if err != nil {
		return err
	}
	got, err := get(ctx, n, 0, exerciseBlocks)
	if err != nil {
		return err
	}
	for id, g := range got {
		switch {
		case g.Status == engine.StatusOK && id != dropped:
		case g.Status == engine.StatusMiss && (id == dropped || fill):
		default:
			return fmt.Errorf("block %d after a reopen: %v: %w", id, g.Status, g.Err)
		}
	}
	if fill {
		return nil
	}
	return reads(ctx, s, n, dropped)
}

// patience bounds a whole exercise; it only catches hangs.
const patience = 2 * time.Minute
