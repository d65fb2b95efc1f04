package tiers

import (
	"errors"
	"math"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

type noFile struct{}

func (noFile) ID() uint64         { return 1 }
func (noFile) File(bool) vfs.File { return nil }
func (noFile) Retain()            {}
func (noFile) Release()           {}

func TestItemCheck(t *testing.T) {
	two := [][]byte{make([]byte, 3), make([]byte, 5)}
	for _, tc := range []struct {
		name string
		it   Item
		ok   bool
	}{
		{"good", Item{File: noFile{}, Length: 8, Spans: two}, true},
		{"far", Item{File: noFile{}, Offset: 1 << 62, Length: 8, Spans: two}, true},
		{"no file", Item{Length: 8, Spans: two}, false},
		{"empty", Item{File: noFile{}}, false},
		{"negative length", Item{File: noFile{}, Length: -8, Spans: two}, false},
		{"negative offset", Item{File: noFile{}, Offset: -1, Length: 8, Spans: two}, false},
		{"offset overflows", Item{File: noFile{}, Offset: math.MaxInt64, Length: 8, Spans: two}, false},
		{"too short", Item{File: noFile{}, Length: 9, Spans: two}, false},
		{"too long", Item{File: noFile{}, Length: 7, Spans: two}, false},
	} {
		if err := tc.it.Check(); (err == nil) != tc.ok || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestFailAll(t *testing.T) {
	items := []Item{{N: 5, Path: PathDirect}, {Err: ErrBusy}}
	if err := FailAll(items, ErrClosed); err != ErrClosed {
		t.Errorf("returned %v", err)
	}
	for i, it := range items {
		if it.N != 0 || it.Path != PathNone || it.Err != ErrClosed {
			t.Errorf("item %d: %+v", i, it)
		}
	}
}

func TestPathNames(t *testing.T) {
	seen := map[string]bool{}
	for p := PathNone; p <= PathBufferedBounce+1; p++ {
		if s := p.String(); s == "" || seen[s] {
			t.Errorf("path %d is called %q", p, s)
		} else {
			seen[s] = true
		}
	}
}
