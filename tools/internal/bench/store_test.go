package bench

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// mapStore keeps blocks in memory.
type mapStore struct {
	mu     sync.Mutex
	shape  Shape
	blocks map[string][]byte
	world  *world
	puts   int
	opened time.Time
}

// world is what all stores of a test have in common.
type world struct {
	mu sync.Mutex
	// flip serves wrong bytes, full refuses every second put.
	flip, full bool
	path       string
	// inFlight, if set, is what the reader says that it keeps in flight.
	inFlight float64
	stores   []*mapStore
	open     int
	failOpen bool
}

func (w *world) opener(_ context.Context, dir string, s Shape) (Store, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failOpen {
		return nil, errors.New("no store today")
	}
	m := &mapStore{shape: s, blocks: map[string][]byte{}, world: w, opened: time.Now()}
	w.stores = append(w.stores, m)
	w.open++
	return m, os.MkdirAll(dir, 0o700)
}

func (s *mapStore) Match(_ context.Context, hashes [][]byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, h := range hashes {
		if s.blocks[string(h)] == nil {
			return i, nil
		}
	}
	return len(hashes), nil
}

func (s *mapStore) Get(_ context.Context, blocks []Block) []Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Answer
	for _, b := range blocks {
		p := s.blocks[string(b.Hash)]
		if p == nil {
			out = append(out, Answer{Status: "Miss", Err: errors.New("not stored")})
			continue
		}
		from, _ := s.shape.plane(b.FirstPlane)
		_, to := s.shape.plane(b.FirstPlane + b.Planes - 1)
		if int(to-from) != len(b.Data) {
			return []Answer{{Status: "Invalid", Err: errors.New("wrong length")}}
		}
		copy(b.Data, p[from:to])
		for off := 3; s.world.flip && off < len(b.Data); off++ {
			b.Data[off] ^= 1
		}
		out = append(out, Answer{OK: true, Status: "OK"})
	}
	return out
}

func (s *mapStore) Put(_ context.Context, blocks []Block) []Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Answer
	for _, b := range blocks {
		if s.puts++; s.world.full && s.puts%2 == 0 {
			out = append(out, Answer{Status: "Shed", Err: errors.New("full")})
			continue
		}
		s.blocks[string(b.Hash)] = append([]byte{}, b.Data...)
		out = append(out, Answer{OK: true, Status: "OK"})
	}
	return out
}

func (s *mapStore) NewBuffer(n int) ([]byte, func(), error) { return make([]byte, n), func() {}, nil }
func (s *mapStore) Flush(context.Context) error             { return nil }

func (s *mapStore) Close(context.Context) error {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.world.open--
	return nil
}

func (s *mapStore) Path() PathInfo {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	p := PathInfo{Name: s.world.path}
	if s.world.inFlight > 0 {
		p.Reader = &ReaderCount{RequestSeconds: s.world.inFlight * time.Since(s.opened).Seconds()}
	}
	return p
}

// smallConfig has 18 blocks in 6 calls of 3, two at a time.
func smallConfig(t *testing.T, w *world) Config {
	t.Helper()
	return Config{
		Dir: t.TempDir(), BlockBytes: 9000, BatchBlocks: 3, Bytes: 20 * 9000, Concurrency: 2, Rounds: 3, Open: w.opener,
		judgeFrom: time.Hour, // memory is too fast for two workers to be under way at all times
	}
}

// empty fails the test when something was left in the directory or open.
func empty(t *testing.T, c Config, w *world) {
	t.Helper()
	left, err := os.ReadDir(c.Dir)
	if err != nil || len(left) != 0 || w.open != 0 {
		t.Errorf("left behind: %v, %v, %d stores open", left, err, w.open)
	}
}
