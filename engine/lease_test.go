package engine

import (
	"context"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
)

// fakeClock is Options.private.now.
type fakeClock struct{ now time.Time }

func newFakeClock() *fakeClock { return &fakeClock{time.Unix(1_700_000_000, 0)} }

func (c *fakeClock) add(d time.Duration) { c.now = c.now.Add(d) }
func (c *fakeClock) get() time.Time      { return c.now }

func mustMatch(t testing.TB, n *Namespace, ids ...int) *Lease {
	t.Helper()
	var hashes [][]byte
	for _, id := range ids {
		hashes = append(hashes, hashOf(id))
	}
	l, err := n.Match(context.Background(), hashes)
	if err != nil || l.Blocks() != len(ids) {
		t.Fatalf("match: %v, %d of %d blocks", err, l.Blocks(), len(ids))
	}
	return l
}

// leasedStore moves nothing that is only used: what survives an eviction was
// leased.
func leasedStore(t *testing.T) (*Store, *Namespace, *fakeClock) {
	t.Helper()
	clock := newFakeClock()
	o := testOptions(vfs.NewMem())
	o.MoveShare = -1
	o.private.now = clock.get
	s := mustOpen(t, o)
	t.Cleanup(func() { mustClose(t, s) })
	n := mustSpace(t, s)
	fillSegment(t, s, n, 0)
	mustFlush(t, s)
	return s, n, clock
}

// TestLeaseKeepsBlocks: an eviction moves leased blocks on, whatever the
// share of moves, until the lease is released or has expired.
func TestLeaseKeepsBlocks(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(l *Lease, clock *fakeClock)
		live bool
	}{
		{"held", func(*Lease, *fakeClock) {}, true},
		{"just before its end", func(_ *Lease, c *fakeClock) { c.add(defaultLease - 1) }, true},
		{"expired", func(_ *Lease, c *fakeClock) { c.add(defaultLease) }, false},
		{"released", func(l *Lease, _ *fakeClock) { l.Release() }, false},
		{"renewed", func(l *Lease, c *fakeClock) {
			c.add(defaultLease - 1)
			if !l.Renew() {
				panic("not renewed")
			}
			c.add(defaultLease - 1)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, n, clock := leasedStore(t)
			l := mustMatch(t, n, 0, 1)
			c.end(l, clock)
			mustEvict(t, s)
			for id := range 2 {
				if c.live {
					wantBlock(t, n, id, 0, raceSize)
				} else {
					wantStatus(t, n, id, raceSize, StatusMiss)
				}
			}
			wantStatus(t, n, 2, raceSize, StatusMiss)
			if moved := s.Stats().MovedBlocks; (moved == 2) != c.live {
				t.Errorf("%d moved", moved)
			}
		})
	}
}

// TestLeaseEnds: releasing twice is nothing, an ended lease is not renewed,
// and two leases on one block are two.
func TestLeaseEnds(t *testing.T) {
	s, n, clock := leasedStore(t)
	a, b := mustMatch(t, n, 0), mustMatch(t, n, 0, 1)
	size := entryOf(t, s, n, 0).Bytes()
	if got := s.Stats().LeasedBytes; got != 2*size {
		t.Errorf("%d bytes leased, want %d: a block counts once", got, 2*size)
	}
	a.Release()
	a.Release()
	if a.Renew() {
		t.Error("renewed after its release")
	}
	if got := s.Stats().LeasedBytes; got != 2*size {
		t.Errorf("%d bytes leased, want %d: the other lease holds", got, 2*size)
	}
	clock.add(defaultLease)
	if b.Renew() {
		t.Error("renewed after its end")
	}
	c := mustMatch(t, n, 0)
	b.Release() // of a lease that expired: must not end the new one
	mustEvict(t, s)
	wantBlock(t, n, 0, 0, raceSize)
	wantStatus(t, n, 1, raceSize, StatusMiss)
	c.Release()
	if got := s.Stats().LeasedBytes; got != 0 {
		t.Errorf("%d bytes leased after all", got)
	}
}

// TestLeaseShare bounds what leases hold together. Match still answers how
// long the prefix is; what is past the bound is not promised.
func TestLeaseShare(t *testing.T) {
	s, n, clock := leasedStore(t)
	size := entryOf(t, s, n, 0).Bytes()
	s.o.LeaseShare = float64(3*size) / float64(s.room.capacityBytes)
	l := mustMatch(t, n, 0, 1, 2, 3, 4)
	if st := s.Stats(); st.LeasedBytes != 3*size || st.LeasesRefused != 2 {
		t.Errorf("%d bytes leased, %d refused; want %d and 2", st.LeasedBytes, st.LeasesRefused, 3*size)
	}
	mustMatch(t, n, 2, 1, 0) // leased already: takes nothing
	if st := s.Stats(); st.LeasedBytes != 3*size || st.LeasesRefused != 2 {
		t.Errorf("%d bytes leased, %d refused", st.LeasedBytes, st.LeasesRefused)
	}
	// Leases that nobody released make room when they have expired.
	clock.add(2 * defaultLease)
	mustMatch(t, n, 3, 4, 5)
	if st := s.Stats(); st.LeasedBytes != 3*size || st.LeasesRefused != 2 {
		t.Errorf("%d bytes leased, %d refused", st.LeasedBytes, st.LeasesRefused)
	}
	l.Release()
	mustEvict(t, s)
	for id, want := range map[int]Status{0: StatusMiss, 2: StatusMiss, 3: StatusOK, 5: StatusOK} {
		wantStatus(t, n, id, raceSize, want)
	}
}
