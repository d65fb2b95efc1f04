package index

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// What docs/benchmarks.md promises of an index on disk, per block.
const (
	sharedBytesMax   = 120
	unsharedBytesMax = 80
)

// scaleBlocks is how many blocks the scale tests load: SEALSTONE_SCALE_BLOCKS
// where it is set, else few with -short, a million in the full run.
func scaleBlocks(t testing.TB) int {
	t.Helper()
	if v := os.Getenv("SEALSTONE_SCALE_BLOCKS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1000 {
			t.Fatalf("SEALSTONE_SCALE_BLOCKS=%q: want a number of at least 1000", v)
		}
		return n
	}
	if os.Getenv("SEALSTONE_FULL") != "" {
		return 1_000_000
	}
	if testing.Short() {
		return 20_000
	}
	return 50_000
}

// scaleKey and scaleEntry are those of the i-th block of a store of 1 MiB
// blocks in segments of 1 GiB, put in order: hashes of 32 bytes, chains of
// 1,000 blocks.
func scaleKey(i int) Key {
	h := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("scale"), uint64(i)))
	return Key{Namespace: 1, Hash: string(h[:])}
}

func scaleEntry(i int) Entry {
	const pages, perSegment = 257, 1020
	h := sha256.Sum256(binary.LittleEndian.AppendUint64([]byte("content"), uint64(i)))
	return Entry{
		Extent: Extent{
			Address:     disk.Address{Segment: 1 + uint64(i/perSegment), Page: uint32(1 + i%perSegment*pages)},
			HeaderPages: 1, Pages: pages, HeaderSum: binary.LittleEndian.Uint64(h[8:]),
		},
		Content: ContentTag(h[:8]), Seq: uint64(i + 1), Depth: uint32(i % 1000), RawBytes: 1 << 20,
	}
}

// scalePut does what the applier does for a put.
func scalePut(b *Batch, i int, sharing bool) error {
	k, e := scaleKey(i), scaleEntry(i)
	if _, ok, err := b.Get(k); ok || err != nil {
		return fmt.Errorf("key %d is there already: %w", i, err)
	}
	if err := b.Bind(k, e); err != nil || !sharing {
		return err
	}
	if _, ok, err := b.Content(testTenant, e.Content); ok || err != nil {
		return err
	}
	return b.SetContent(testTenant, e.Content, e.Address)
}

func scaleLoad(t testing.TB, d *DB, blocks int, sharing bool) {
	t.Helper()
	const batch = 512
	live := map[uint64]int64{}
	start := time.Now()
	for i := 0; i < blocks; {
		end := min(i+batch, blocks)
		err := d.Update(context.Background(), live, func(b *Batch) error {
			for ; i < end; i++ {
				if err := scalePut(b, i, sharing); err != nil {
					return err
				}
			}
			return b.SetApplied(uint64(i))
		})
		if err != nil {
			t.Fatalf("load up to block %d: %v", i, err)
		}
	}
	if err := d.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	t.Logf("loaded %d blocks in %.1f s, %.1f µs each", blocks, took.Seconds(), took.Seconds()*1e6/float64(blocks))
}

// TestScaleBytes: what the index takes on disk, with sharing and without.
func TestScaleBytes(t *testing.T) {
	blocks := scaleBlocks(t)
	for _, c := range []struct {
		name    string
		sharing bool
		max     int64
	}{{"without sharing", false, unsharedBytesMax}, {"with sharing", true, sharedBytesMax}} {
		t.Run(c.name, func(t *testing.T) {
			o := scaleOptions(t)
			d, err := Create(testContext(t), o)
			if err != nil {
				t.Fatal(err)
			}
			scaleLoad(t, d, blocks, c.sharing)
			if err := d.MarkComplete(testContext(t)); err != nil {
				t.Fatal(err)
			}
			t.Logf("after the load %.1f B a block; RSS %s", tableBytes(d)/float64(blocks), rss())
			mustClose(t, d)
			scaleSettled(t, o, blocks, c.max)
			if c.sharing {
				scaleMatch(t, o, blocks)
			}
		})
	}
}

func scaleOptions(t testing.TB) Options {
	t.Helper()
	fs, err := vfs.OpenOS(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = fs.Close() })
	return Options{FS: fs, Dir: "index", UUID: testUUID, CacheBytes: 64 << 20}
}

// scaleSettled measures the index when compactions have nothing more to do.
func scaleSettled(t *testing.T, o Options, blocks int, maxBytes int64) {
	t.Helper()
	start := time.Now()
	d, err := Open(testContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	opened := time.Since(start)
	if err := d.db.Compact(context.Background(), []byte{0}, []byte{0xff}, true); err != nil {
		t.Fatal(err)
	}
	got := tableBytes(d) / float64(blocks)
	t.Logf("opened in %v; settled %.1f B a block; RSS %s", opened, got, rss())
	if got > float64(maxBytes) {
		t.Errorf("%.1f B a block on disk, want at most %d", got, maxBytes)
	}
	mustClose(t, d)
}

// tableBytes is what the tables take; files about to be removed do not count.
func tableBytes(d *DB) float64 { return float64(d.db.Metrics().Total().TablesSize) }

// scaleMatch looks up 1,000 hashes, all of them stored.
func scaleMatch(t *testing.T, o Options, blocks int) {
	t.Helper()
	for _, c := range []struct {
		name  string
		cache int64
	}{{"the default cache", 64 << 20}, {"all of it cached", int64(blocks)*sharedBytesMax + 128<<20}} {
		o.CacheBytes = c.cache
		d, err := Open(testContext(t), o)
		if err != nil {
			t.Fatal(err)
		}
		if c.cache > 64<<20 { // warm
			if err := d.Keys(context.Background(), func(KeyEntry) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		took := make([]time.Duration, 0, 100)
		for round := range cap(took) {
			keys := make([]Key, 1000)
			for i := range keys {
				keys[i] = scaleKey((round*7919 + i*104729) % blocks)
			}
			start := time.Now()
			found, err := d.Get(testContext(t), keys, true)
			took = append(took, time.Since(start))
			if err != nil || !found[len(found)-1].OK {
				t.Fatalf("match: %v", err)
			}
		}
		slices.Sort(took)
		t.Logf("match of 1,000 with %s: median %v, p90 %v; RSS %s", c.name, took[len(took)/2], took[len(took)*9/10], rss())
		mustClose(t, d)
	}
}

// rss is the process's resident memory, as the system words it.
func rss() string {
	p, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(p)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}
