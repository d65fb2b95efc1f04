package bench

import (
	"testing"
)

func TestWithDepth(t *testing.T) {
	for _, tc := range []struct {
		batch, depth, concurrency int // given
		wantDepth, wantCalls      int
		wantMean                  float64
	}{
		{64, 0, 0, 64, 2, 51.2},
		{16, 0, 0, 16, 2, 12.8},
		{1000, 0, 0, 64, 2, 51.2},
		{1, 32, 0, 32, 33, 25.6},
		{16, 0, 4, 48, 4, 38.4},
		{16, 0, 1, 16, 1, 6.8}, // one call has only its own requests, and they run out
		{8, 16, 0, 16, 3, 12.8},
	} {
		c := Config{Dir: "d", BlockBytes: 4096, Bytes: 1 << 30, BatchBlocks: tc.batch, Depth: tc.depth, Concurrency: tc.concurrency}
		c, err := c.withDefaults()
		if err != nil {
			t.Errorf("%+v: %v", tc, err)
			continue
		}
		if c.Depth != tc.wantDepth || c.Concurrency != tc.wantCalls || round4(c.depthWanted()) != tc.wantMean {
			t.Errorf("%+v: depth %d, %d calls, mean of %v or more", tc, c.Depth, c.Concurrency, c.depthWanted())
		}
	}
}

func TestBlocksAreWholeBatches(t *testing.T) {
	for _, tc := range []struct{ bytes, block, batch, want int }{
		{100, 10, 3, 9}, {100, 10, 10, 10}, {100, 10, 64, 64}, {100, 100, 1, 1},
	} {
		c := Config{Bytes: int64(tc.bytes), BlockBytes: int64(tc.block), BatchBlocks: tc.batch}
		if got := c.blocks(); got != tc.want {
			t.Errorf("%+v: %d blocks", tc, got)
		}
	}
}

// TestSegments: what is large enough gets the segments of a large store, and
// room for them.
func TestSegments(t *testing.T) {
	c := Config{BlockBytes: 1 << 20, BatchBlocks: 64, Bytes: 2 << 30}
	if got := c.segmentBytes(); got != largeSegmentBytes || c.capacity() < 2<<30+spareSegments*largeSegmentBytes {
		t.Errorf("segments of %d in a store of %d", got, c.capacity())
	}
	for name, change := range map[string]func(*Config){
		"little data":      func(c *Config) { c.Bytes = 128 << 20 },
		"a given capacity": func(c *Config) { c.CapacityBytes = 8 << 30 },
	} {
		c := c
		change(&c)
		if got := c.segmentBytes(); got != 0 {
			t.Errorf("%s: segments of %d", name, got)
		}
	}
}
