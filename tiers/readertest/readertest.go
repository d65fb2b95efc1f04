// Package readertest is the conformance suite of [tiers.Reader] and
// [tiers.ReadWriter]: what every implementation must do, on every kind of file
// and memory. An implementation calls [Run] and [RunWriter] in its tests, and
// counts its goroutines itself.
package readertest

import (
	"context"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/tiers"
)

// Config is what a test asks of the reader that it gets.
type Config struct {
	// Pool must give all memory in which the reader lets the kernel write,
	// but for the spans: the suite watches it for leaks.
	Pool *aligned.Pool
	// Workers is the number of reads at one time and QueueMax how many more
	// may wait; 0 means the reader's default.
	Workers, QueueMax int
}

// A reader that never uses direct descriptors says so by this method; the
// suite then wants no reason for a refusal, and no direct path.
type buffered interface{ Buffered() bool }

func isBuffered(r tiers.Reader) bool {
	b, ok := r.(buffered)
	return ok && b.Buffered()
}

// Open makes a reader for one test.
type Open func(t testing.TB, c Config) tiers.Reader

// poolBytes is the pool of a test: a few of the largest reads.
const poolBytes = 16 << 20

// closeWaitMax bounds the end of a test that failed.
const closeWaitMax = 10 * time.Second

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, tc := range []struct {
		name string
		test func(*testing.T, *suite)
	}{
		{"Content", testContent},
		{"RandomBatches", testRandomBatches},
		{"ManySpans", testManySpans},
		{"EndOfFile", testEndOfFile},
		{"InvalidItems", testInvalidItems},
		{"OneBadItem", testOneBadItem},
		{"ShortAndInterrupted", testShortAndInterrupted},
		{"DirectRefused", testDirectRefused},
		{"EndedContext", testEndedContext},
		{"Abandon", testAbandon},
		{"AllWorkersHang", testAllWorkersHang},
		{"QueueFull", testQueueFull},
		{"WaitForDevice", testWaitForDevice},
		{"PoolExhausted", testPoolExhausted},
		{"Close", testClose},
		{"CloseWhileReading", testCloseWhileReading},
		{"Concurrent", testConcurrent},
		{"Done", testDone},
		{"DoneRefused", testDoneRefused},
		{"DoneBeforeOthers", testDoneBeforeOthers},
		{"DoneAbandoned", testDoneAbandoned},
	} {
		t.Run(tc.name, func(t *testing.T) { tc.test(t, &suite{open: open}) })
	}
}

// suite makes the readers of one test.
type suite struct {
	open Open
}

// reader opens a reader and, at the end of the test, closes it and wants all
// buffers back.
func (s *suite) reader(t *testing.T, c Config) (tiers.Reader, *aligned.Pool) {
	t.Helper()
	if c.Pool == nil {
		c.Pool = aligned.NewPool(poolBytes)
	}
	r := s.open(t, c)
	if r.Name() == "" {
		t.Error("the reader has no name")
	}
	t.Cleanup(func() {
		// Where a test failed, a read may be held for ever.
		ctx, cancel := context.WithTimeout(context.Background(), closeWaitMax)
		defer cancel()
		if err := r.Close(ctx); err != nil {
			t.Errorf("close: %v", err)
		}
		if inUse, _, _ := c.Pool.Stats(); inUse != 0 {
			t.Errorf("%d bytes of buffers are still in use", inUse)
		}
		if err := c.Pool.Close(); err != nil {
			t.Errorf("close pool: %v", err)
		}
	})
	return r, c.Pool
}

// readOne reads one item.
func readOne(t *testing.T, r tiers.Reader, ctx context.Context, it tiers.Item) tiers.Item {
	t.Helper()
	items := []tiers.Item{it}
	if err := r.ReadBatch(ctx, items); err != nil {
		t.Fatalf("read batch: %v", err)
	}
	return items[0]
}

// checkNotRefused wants direct I/O still in use, of a reader that tells: good
// files gave it no reason to stop.
func checkNotRefused(t *testing.T, r tiers.Reader) {
	t.Helper()
	if r, ok := r.(interface{ Refusal() string }); ok && r.Refusal() != "" {
		t.Errorf("direct I/O was given up: %s", r.Refusal())
	}
}
