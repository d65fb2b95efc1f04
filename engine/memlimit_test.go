package engine

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestFitMemory: the defaults without a limit, under a generous one, and under
// ones that they must be lowered for.
func TestFitMemory(t *testing.T) {
	for _, tc := range []struct {
		limit, block    int64
		inflight, cache int64
		fits            bool
	}{
		{-1, 0, defaultMaxInflight, defaultIndexCache, true},
		{64 * gib, 0, defaultMaxInflight, defaultIndexCache, true},
		{4 * gib, 0, defaultMaxInflight, defaultIndexCache, true},
		{2 * gib, 4 * mib, defaultMaxInflight, defaultIndexCache, true},
		{1 * gib, 4 * mib, 256*mib - 64*mib - 20*mib - 8*mib - 41*mib, 41 * mib, true},
		{512 * mib, mib, 29 * mib, 16 * mib, true},
		{2 * gib, 0, 256 * mib, 16 * mib, false}, // blocks of 64 MiB take more
		{64 * mib, mib, 8 * mib, 16 * mib, false},
	} {
		o := Options{MaxBlockBytes: tc.block, private: privateOptions{memoryLimit: tc.limit}}
		o, err := o.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		fits := tc.limit < 0 || o.memoryBudget() <= tc.limit/memoryShare
		if fits != tc.fits || abs(o.MaxInflightBytes-tc.inflight) > 8*mib || abs(o.IndexCacheBytes-tc.cache) > 2*mib {
			t.Errorf("limit %d MiB, blocks of %d MiB: in flight %d MiB, cache %d MiB, all %d MiB, fits %v", tc.limit/mib, o.MaxBlockBytes/mib,
				o.MaxInflightBytes/mib, o.IndexCacheBytes/mib, o.memoryBudget()/mib, fits)
		}
	}
}

// TestFitMemoryProperty: what is given stays; no default is below its least;
// a higher limit never lowers a default.
func TestFitMemoryProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		block := rapid.Int64Range(1, MaxBlockBytes).Draw(t, "block")
		low := rapid.Int64Range(1, 64*gib).Draw(t, "limit")
		high := rapid.Int64Range(low, 64*gib).Draw(t, "higher")
		at := func(limit int64) Options {
			o, err := Options{MaxBlockBytes: block, private: privateOptions{memoryLimit: limit}}.withDefaults()
			if err != nil {
				t.Fatal(err)
			}
			if o.MaxInflightBytes < max(minInflight, 4*block) || o.IndexCacheBytes < minIndexCache || o.IndexCacheBytes > defaultIndexCache {
				t.Fatalf("limit %d: in flight %d, cache %d", limit, o.MaxInflightBytes, o.IndexCacheBytes)
			}
			if m := o.private.memTableBytes; m != 0 && (m < minMemTable || memTablesShare*m > o.IndexCacheBytes) {
				t.Fatalf("limit %d: tables of %d in a cache of %d", limit, m, o.IndexCacheBytes)
			}
			return o
		}
		a, b := at(low), at(high)
		if a.MaxInflightBytes > b.MaxInflightBytes || a.IndexCacheBytes > b.IndexCacheBytes {
			t.Fatalf("under %d: %d and %d; under %d: %d and %d", low, a.MaxInflightBytes, a.IndexCacheBytes, high, b.MaxInflightBytes, b.IndexCacheBytes)
		}
		given := Options{MaxBlockBytes: 1, MaxInflightBytes: 1 + rapid.Int64Range(4, gib).Draw(t, "inflight"), IndexCacheBytes: 1 + rapid.Int64Range(0, gib).Draw(t, "cache"),
			private: privateOptions{memoryLimit: low}}
		got, err := given.withDefaults()
		if err != nil || got.MaxInflightBytes != given.MaxInflightBytes || got.IndexCacheBytes != given.IndexCacheBytes {
			t.Fatalf("given %d and %d, got %d and %d, %v", given.MaxInflightBytes, given.IndexCacheBytes, got.MaxInflightBytes, got.IndexCacheBytes, err)
		}
	})
}

// TestCapacityInMemory: where files are kept in memory, a store takes no more
// than half the limit by itself, and what it is told to.
func TestCapacityInMemory(t *testing.T) {
	for _, tc := range []struct {
		name         string
		limit, given int64
		inMemory     bool
		want         int64
	}{
		{"on a disk", 128 * mib, 0, false, 80 * mib},
		{"no limit", -1, 0, true, 80 * mib},
		{"half of the limit", 128 * mib, 0, true, 64 * mib},
		{"a high limit", 64 * gib, 0, true, 80 * mib},
		{"given", 64 * mib, 70 * mib, true, 70 * mib},
	} {
		mem := vfs.NewMem()
		mem.SetCapacityBytes(100 * mib)
		o := testOptions(mem)
		o.CapacityBytes, o.private.memoryLimit, o.private.inMemory = tc.given, tc.limit, tc.inMemory
		for range 2 { // made, and opened again
			s := mustOpen(t, o)
			if got := s.Stats().CapacityBytes; abs(got-tc.want) > mib {
				t.Errorf("%s: capacity %d, want %d", tc.name, got, tc.want)
			}
			mustClose(t, s)
		}
	}
}

// TestMemoryWarning: budgets above their share are told, with what to lower.
func TestMemoryWarning(t *testing.T) {
	for _, tc := range []struct {
		limit int64
		warns bool
	}{{-1, false}, {64 * gib, false}, {128 * mib, true}} {
		o := testOptions(vfs.NewMem())
		o.private.memoryLimit = tc.limit
		s := mustOpen(t, o)
		warned := false
		for _, e := range s.Events(0) {
			warned = warned || e.Kind == EventProbe && strings.Contains(e.Message, "lower MaxBlockBytes")
		}
		if warned != tc.warns {
			t.Errorf("limit %d: warned is %v", tc.limit, warned)
		}
		mustClose(t, s)
	}
}

func abs(n int64) int64 { return max(n, -n) }

// TestFitHostCache: the cache in memory is as large as asked for without a
// limit, and under one takes with all other budgets at most half of it.
func TestFitHostCache(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.SampledFrom([]int64{-1, 64 * mib, 512 * mib, 2 * gib, 64 * gib}).Draw(t, "limit")
		asked := rapid.Int64Range(0, 100*gib).Draw(t, "asked")
		o, err := Options{MaxBlockBytes: mib, HostCacheBytes: asked, private: privateOptions{memoryLimit: limit}}.withDefaults()
		if err != nil {
			t.Fatal(err)
		}
		got := o.HostCacheBytes
		switch {
		case limit < 0 && got != asked, got < 0, got > asked:
			t.Fatalf("limit %d: %d asked for, got %d", limit, asked, got)
		case limit > 0 && got > 0 && got+o.memoryBudget() > limit/hostShare:
			t.Fatalf("limit %d: %d with the other budgets of %d", limit, got, o.memoryBudget())
		case limit > 0 && got < asked && got+o.memoryBudget() < min(limit/hostShare, asked):
			t.Fatalf("limit %d: only %d of %d, the other budgets take %d", limit, got, asked, o.memoryBudget())
		}
	})
	if _, err := (Options{HostCacheBytes: -1}).withDefaults(); err == nil {
		t.Error("a negative size is taken")
	}
}
