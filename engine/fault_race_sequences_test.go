package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
)

// TestFaultSequences is field cases 14 and 10: lookups, loads, cancelled and
// timed-out and failing ones, leases that are renewed, released twice or
// forgotten, in any order and from several goroutines. Every operation ends
// once; afterwards all buffers are back, nothing is leased, and everything is
// served.
func TestFaultSequences(t *testing.T) {
	sequences := 4000
	if testing.Short() {
		sequences = 600
	} else if fullTests {
		sequences = 100_000
	}
	const blocks, workers = 24, 4
	tally := faulttest.New(t)
	for _, seed := range seedsToRun(t, 1, 1) {
		checkLeaks(t)
		tally.Seeds(1)
		fault := tally.Try(fmt.Sprintf("failed reads in %d sequences, seed %d", sequences, seed))
		var reads atomic.Uint64
		var failing atomic.Bool
		fs := vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
			if failing.Load() && op.Kind == vfs.OpRead && strings.HasPrefix(op.Name, "segments/") && reads.Add(1)%7 == 0 {
				fault.Fire()
				return syscall.EIO
			}
			return nil
		})
		o := liveOptions(fs)
		o.MaxInflightBytes = 1 * mib // buffers are scarce
		s := mustOpen(t, o)
		n := mustSpace(t, s)
		for id := range blocks {
			mustPut(t, n, blockOf(id, 0, raceSize))
		}
		mustFlush(t, s)
		failing.Store(true)
		var wg sync.WaitGroup
		for w := range workers {
			q := &sequence{t: t, s: s, n: n, blocks: blocks, rng: rand.New(rand.NewPCG(seed, uint64(w)))}
			wg.Go(func() {
				for range sequences / workers {
					q.step()
				}
				q.end()
			})
		}
		wg.Wait()
		failing.Store(false)
		wantNoBuffers(t, s)
		if st := s.Stats(); st.LeasedBytes != 0 || st.BufferBytes != 0 {
			t.Errorf("%d bytes are leased, %d of buffers are out", st.LeasedBytes, st.BufferBytes)
		}
		for id := range blocks {
			wantBlock(t, n, id, 0, raceSize)
		}
		mustClose(t, s)
		if !t.Failed() {
			fault.Survive()
		}
	}
}

// sequence is one caller.
type sequence struct {
	t      *testing.T
	s      *Store
	n      *Namespace
	rng    *rand.Rand
	blocks int
	leases []*Lease
}

// context is one that lasts, has ended, or ends soon.
func (q *sequence) context() (context.Context, context.CancelFunc) {
	limit := time.Hour
	switch q.rng.IntN(4) {
	case 0:
		limit = 0
	case 1:
		limit = time.Duration(q.rng.IntN(200)) * time.Microsecond
	}
	return context.WithTimeout(context.Background(), limit)
}

func (q *sequence) step() {
	ctx, cancel := q.context()
	defer cancel()
	switch q.rng.IntN(6) {
	case 0:
		var hashes [][]byte
		for range 1 + q.rng.IntN(6) {
			hashes = append(hashes, hashOf(q.rng.IntN(q.blocks+2)))
		}
		if l, err := q.n.Match(ctx, hashes); err == nil {
			q.leases = append(q.leases, l)
		}
	case 1:
		if i := len(q.leases); i > 0 {
			l := q.leases[q.rng.IntN(i)]
			l.Renew()
			l.Release()
			if l.Renew() {
				q.t.Error("renewed after its release")
			}
			l.Release()
		}
	case 2:
		q.submit(ctx)
	default:
		q.get(ctx, GetOptions{WaitForDevice: q.rng.IntN(4) == 0})
	}
	if len(q.leases) > 50 {
		q.end()
	}
}

// batch is a get of some blocks, perhaps into memory of the store.
func (q *sequence) batch() (ids []int, dst [][]byte, blocks []GetBlock, free func()) {
	var own []*Buffer
	for range 1 + q.rng.IntN(4) {
		id := q.rng.IntN(q.blocks + 2)
		p, b := getParts(id, raceSize)
		if buf, err := q.s.NewBuffer(raceSize); err == nil && q.rng.IntN(2) == 0 {
			own = append(own, buf)
			copy(buf.Bytes(), p)
			p = buf.Bytes()[:raceSize]
			b.Parts[0].Spans, b.Parts[1].Spans = [][]byte{p[:raceSize/3]}, [][]byte{p[raceSize/3:]}
		} else if err == nil {
			buf.Free()
		}
		ids, dst, blocks = append(ids, id), append(dst, p), append(blocks, b)
	}
	return ids, dst, blocks, func() {
		for _, b := range own {
			b.Free()
		}
	}
}

func (q *sequence) judge(ids []int, dst [][]byte, results []GetResult) {
	if len(results) != len(ids) {
		q.t.Errorf("%d results for %d blocks", len(results), len(ids))
		return
	}
	for i, r := range results {
		switch {
		case r.Status == StatusOK && variantOf(ids[i], dst[i], 1) != 0:
			q.t.Errorf("get %d: WRONG BYTES with status OK", ids[i])
		case r.Status == StatusMiss && ids[i] < q.blocks, r.Status == StatusCorrupt, r.Status == statusNone:
			q.t.Errorf("get %d: %s %v", ids[i], r.Status, r.Err)
		}
	}
}

func (q *sequence) get(ctx context.Context, o GetOptions) {
	ids, dst, blocks, free := q.batch()
	defer free()
	q.judge(ids, dst, q.n.Get(ctx, blocks, o))
}

func (q *sequence) submit(ctx context.Context) {
	ids, dst, blocks, free := q.batch()
	defer free()
	var ended atomic.Int32
	done := make(chan struct{})
	op := &GetOp{Namespace: q.n, Blocks: blocks, Context: ctx}
	if err := q.s.Submit(op, func() {
		if ended.Add(1) == 1 {
			close(done)
		}
	}); err != nil {
		return // the queue is full
	}
	<-done
	q.judge(ids, dst, op.Results)
	if ended.Load() != 1 {
		q.t.Error("an operation ended twice")
	}
}

// end forgets nothing: every lease is released, some for the second time.
func (q *sequence) end() {
	for _, l := range q.leases {
		l.Release()
	}
	q.leases = nil
}

// TestFaultMissesTakeNoBuffer is field case 30: a store that answers nothing
// but misses takes no buffer for it.
func TestFaultMissesTakeNoBuffer(t *testing.T) {
	tally := faulttest.New(t)
	fault := tally.Try("nothing but misses")
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	mustPut(t, mustSpace(t, s), blockOf(0, 0, raceSize))
	mustClose(t, s)
	s = mustOpen(t, testOptions(mem))
	n := mustSpace(t, s)
	for i := range 300 {
		wantStatus(t, n, 1+i, raceSize, StatusMiss)
	}
	fault.Fire()
	if st := s.Stats(); st.InflightBytes != 0 || st.CachedBufferBytes != 0 || st.Fetches != 0 {
		t.Errorf("%d bytes of buffers out, %d cached, %d reads for misses alone", st.InflightBytes, st.CachedBufferBytes, st.Fetches)
	} else {
		fault.Survive()
	}
	wantBlock(t, n, 0, 0, raceSize)
	if s.Stats().CachedBufferBytes == 0 {
		t.Error("a hit takes no buffer either: the figure shows nothing")
	}
	mustClose(t, s)
}

// TestFaultRanksMatch is field case 22: the ranks of one model are namespaces
// of their own. A prefix that all of them hold is kept for all by their
// leases, whatever is evicted, until they are released.
func TestFaultRanksMatch(t *testing.T) {
	const ranks, blocks, lost, size = 4, 60, 40, 2000
	tally := faulttest.New(t)
	fault := tally.Try("an eviction between the match of all ranks and their gets")
	checkLeaks(t)
	o := testOptions(vfs.NewMem())
	o.MoveShare, o.LeaseShare = -1, 0.9 // what is moved on was leased
	o.CapacityBytes = 16 * mib
	s := mustOpen(t, o)
	var spaces [ranks]*Namespace
	var hashes [][]byte
	for id := range blocks {
		hashes = append(hashes, hashOf(id))
	}
	for r := range spaces {
		l := testLayout()
		l.TP = layout.Parallel{Size: ranks, Rank: uint32(r)}
		n, err := s.Namespace(t.Context(), l, "tenant", NamespaceOptions{})
		if err != nil {
			t.Fatal(err)
		}
		spaces[r] = n
		for id := range blocks {
			mustPut(t, n, blockOf(id, r, size))
		}
	}
	mustFlush(t, s)
	mustDrop(t, spaces[2], lost)
	prefix := blocks
	var leases []*Lease
	for _, n := range spaces {
		l, err := n.Match(t.Context(), hashes)
		if err != nil {
			t.Fatal(err)
		}
		prefix = min(prefix, l.Blocks())
		leases = append(leases, l)
	}
	if prefix != lost {
		t.Fatalf("the ranks share %d blocks, want %d", prefix, lost)
	}
	segments := s.Stats().Segments
	for range segments {
		mustEvict(t, s)
	}
	fault.Fire()
	for r, n := range spaces {
		for id := range prefix {
			wantBlock(t, n, id, r, size)
		}
	}
	for _, l := range leases {
		l.Release()
	}
	if held := s.Stats().LeasedBytes; held != 0 {
		t.Errorf("%d bytes are leased after all", held)
	}
	mustClose(t, s)
	if !t.Failed() {
		fault.Survive()
	}
}
