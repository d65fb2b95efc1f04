package disk

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/uring"
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/readertest"
)

// newUring makes a reader, or skips where there is no io_uring.
func newUring(t testing.TB, o UringOptions) *UringReader {
	t.Helper()
	r, err := NewUringReader(o)
	if errors.Is(err, uring.ErrUnsupported) {
		t.Skipf("no io_uring here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// uringShapes are the readers that go through the suites: one ring and many,
// depth for all and for hardly any.
var uringShapes = map[string]UringOptions{
	"default": {},
	"narrow":  {Rings: 1, Depth: 1, SubmitBytes: 1},
	"wide":    {Rings: 4, Depth: 256, SubmitBytes: 1 << 30},
}

func openUring(o UringOptions) readertest.OpenWriter {
	return func(t testing.TB, c readertest.Config) tiers.ReadWriter {
		o.Pread = PreadOptions{Workers: c.Workers, QueueMax: c.QueueMax, Pool: c.Pool}
		return newUring(t, o)
	}
}

func TestUringReaderConformance(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, o := range uringShapes {
		t.Run(name, func(t *testing.T) {
			open := openUring(o)
			readertest.Run(t, func(t testing.TB, c readertest.Config) tiers.Reader { return open(t, c) })
		})
	}
}

func TestUringWriterConformance(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, o := range uringShapes {
		t.Run(name, func(t *testing.T) { readertest.RunWriter(t, openUring(o)) })
	}
}

func TestUringOptions(t *testing.T) {
	defer goleak.VerifyNone(t)
	pool := aligned.NewPool(1 << 20)
	for _, tc := range []struct {
		name         string
		o            UringOptions
		want         error
		rings, depth int
	}{
		{"no pool", UringOptions{}, ErrInvalid, 0, 0},
		{"negative rings", UringOptions{Rings: -1}, ErrInvalid, 0, 0},
		{"negative depth", UringOptions{Depth: -1}, ErrInvalid, 0, 0},
		{"negative bytes", UringOptions{SubmitBytes: -1}, ErrInvalid, 0, 0},
		{"buffered", UringOptions{}, ErrInvalid, 0, 0},
		{"defaults", UringOptions{}, nil, min(runtime.GOMAXPROCS(0), 4), 64},
		{"one each", UringOptions{Rings: 3, Depth: 1}, nil, 3, 3},
		{"capped", UringOptions{Rings: 100, Depth: 1 << 20}, nil, MaxUringRings, MaxUringDepth},
	} {
		if tc.name == "buffered" {
			tc.o.Pread.Buffered = true
		}
		if tc.name != "no pool" {
			tc.o.Pread.Pool = pool
		}
		if tc.want != nil {
			if _, err := NewUringReader(tc.o); !errors.Is(err, tc.want) {
				t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
			}
			continue
		}
		r := newUring(t, tc.o)
		s := r.Stats()
		if s.Rings != tc.rings || s.Depth < tc.depth || s.Depth >= tc.depth+tc.rings || s.Modes == "" {
			t.Errorf("%s: %+v, want %d rings and a depth of %d", tc.name, s, tc.rings, tc.depth)
		}
		if err := r.Close(context.Background()); err != nil {
			t.Errorf("%s: close: %v", tc.name, err)
		}
	}
}
