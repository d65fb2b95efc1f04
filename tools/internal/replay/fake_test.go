package replay

import (
	"context"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// fakeStore keeps each block in a file of its own: it survives a kill, and it
// breaks a promise when told to.
type fakeStore struct {
	dir   string
	fault string

	mu     sync.Mutex
	puts   int
	closed bool
}

// The promises that a fakeStore can break.
const (
	faultWrongByte = "wrong byte"  // OK with one byte flipped
	faultSwap      = "swap"        // OK with another block's bytes
	faultShort     = "short"       // OK with too few bytes
	faultDirty     = "dirty miss"  // a miss that leaves bytes behind
	faultSilent    = "silent"      // no result for the last block
	faultForget    = "forget"      // an acknowledged put that was not stored
	faultUndead    = "undead"      // a drop that does not drop
	faultShed      = "shed"        // every third put is refused
	faultOpen      = "open"        // does not open
	faultMatch     = "match fails" // match answers an error
	faultExpired   = "expired"     // matched, then gone
	faultOverMatch = "match too long"
)

func openFake(fault string) func(context.Context, Config) (Store, error) {
	return func(_ context.Context, c Config) (Store, error) {
		if fault == faultOpen {
			return nil, errors.New("fake: does not open")
		}
		return &fakeStore{dir: c.Dir, fault: fault}, os.MkdirAll(c.Dir, 0o700)
	}
}

func (s *fakeStore) path(hash []byte) string { return filepath.Join(s.dir, hex.EncodeToString(hash)) }

func (s *fakeStore) Match(_ context.Context, hashes [][]byte) (int, func(), error) {
	switch s.fault {
	case faultMatch:
		return 0, nil, errors.New("fake: no match today")
	case faultOverMatch:
		return len(hashes) + 1, func() {}, nil
	}
	for i, h := range hashes {
		if _, err := os.Stat(s.path(h)); err != nil {
			return i, func() {}, nil
		}
	}
	return len(hashes), func() {}, nil
}

func (s *fakeStore) Get(_ context.Context, blocks []Block) []Result {
	var results []Result
	for i, b := range blocks {
		data, err := os.ReadFile(s.path(b.Hash))
		r := Result{OK: true, Status: "OK", Bytes: int64(copy(b.Data, data))}
		switch {
		case errors.Is(err, fs.ErrNotExist), s.fault == faultExpired:
			clear(b.Data)
			r = Result{Status: "Miss", Err: errors.New("fake: miss")}
		case s.fault == faultWrongByte:
			b.Data[len(b.Data)/2] ^= 4
		case s.fault == faultSwap && i > 0:
			copy(b.Data, blocks[0].Data)
		case s.fault == faultShort:
			r.Bytes--
		case s.fault == faultDirty:
			r = Result{Status: "Corrupt", Err: errors.New("fake: corrupt")}
		}
		results = append(results, r)
	}
	if s.fault == faultSilent {
		return results[:len(results)-1]
	}
	return results
}

func (s *fakeStore) Put(_ context.Context, blocks []Block) []Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	var results []Result
	for _, b := range blocks {
		s.puts++
		_, err := os.Stat(s.path(b.Hash))
		switch {
		case s.fault == faultShed && s.puts%3 == 0:
			results = append(results, Result{Status: "Shed", Shed: true})
			continue
		case s.fault == faultForget && s.puts%5 == 0, err == nil:
		default:
			tmp := filepath.Join(s.dir, "tmp")
			os.WriteFile(tmp, b.Data, 0o600)
			os.Rename(tmp, s.path(b.Hash))
		}
		results = append(results, Result{OK: true, Status: "OK", Existed: err == nil})
	}
	return results
}

func (s *fakeStore) Drop(_ context.Context, hash []byte) Result {
	if s.fault != faultUndead {
		os.Remove(s.path(hash))
	}
	return Result{OK: true, Status: "OK"}
}

func (s *fakeStore) NewBuffer(n int) ([]byte, func(), error) { return make([]byte, n), func() {}, nil }

func (s *fakeStore) Counters() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Counters{SegmentBytes: 1000 * int64(s.puts), LogBytes: 10 * int64(s.puts), IndexBytes: int64(s.puts)}
}

func (s *fakeStore) Flush(context.Context) error { return nil }

func (s *fakeStore) Close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.New("fake: closed twice")
	}
	s.closed = true
	return nil
}
