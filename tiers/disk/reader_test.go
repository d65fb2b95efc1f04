package disk

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers"
	"github.com/sealstone/sealstone/tiers/readertest"
)

// preadShapes are the readers that go through the suites.
var preadShapes = map[string]PreadOptions{"pread": {}, "buffered": {Buffered: true}}

func openPread(o PreadOptions) readertest.OpenWriter {
	return func(t testing.TB, c readertest.Config) tiers.ReadWriter {
		o.Workers, o.QueueMax, o.Pool = c.Workers, c.QueueMax, c.Pool
		r, err := NewPreadReader(o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}

func TestPreadReaderConformance(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, o := range preadShapes {
		t.Run(name, func(t *testing.T) {
			open := openPread(o)
			readertest.Run(t, func(t testing.TB, c readertest.Config) tiers.Reader { return open(t, c) })
		})
	}
}

func TestPreadWriterConformance(t *testing.T) {
	defer goleak.VerifyNone(t)
	for name, o := range preadShapes {
		t.Run(name, func(t *testing.T) { readertest.RunWriter(t, openPread(o)) })
	}
}

func TestPreadReaderOptions(t *testing.T) {
	pool := aligned.NewPool(1 << 20)
	for _, tc := range []struct {
		name string
		o    PreadOptions
		want error
		max  int
	}{
		{"no pool", PreadOptions{}, ErrInvalid, 0},
		{"negative workers", PreadOptions{Pool: pool, Workers: -1}, ErrInvalid, 0},
		{"negative queue", PreadOptions{Pool: pool, QueueMax: -1}, ErrInvalid, 0},
		{"negative wait", PreadOptions{Pool: pool, PoolWaitMax: -1}, ErrInvalid, 0},
		{"defaults", PreadOptions{Pool: pool}, nil, DefaultReadWorkers},
		{"capped", PreadOptions{Pool: pool, Workers: 1000}, nil, MaxReadWorkers},
	} {
		r, err := NewPreadReader(tc.o)
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
		if err != nil {
			continue
		}
		if r.workersMax != tc.max {
			t.Errorf("%s: %d workers, want %d", tc.name, r.workersMax, tc.max)
		}
		if err := r.Close(context.Background()); err != nil {
			t.Errorf("%s: close: %v", tc.name, err)
		}
	}
}
