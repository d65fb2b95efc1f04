package replay

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/tools/internal/trace"
	"go.uber.org/goleak"
)

// TestMain is also the child of the replays with a kill.
func TestMain(m *testing.M) {
	if fault, ok := os.LookupEnv("REPLAY_TEST_CHILD"); ok {
		err := RunChild(context.Background(), os.Stdin, os.Stdout, openFake(fault))
		if err != nil && !errors.Is(err, ErrReported) {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// writeTrace makes a Mooncake trace of n requests: all share a root, every
// other one continues the one before it.
func writeTrace(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	next := 1
	chain := []int{0}
	for i := range n {
		if i%2 == 0 {
			chain = []int{0}
		}
		for range 6 {
			chain = append(chain, next)
			next++
		}
		fmt.Fprintf(&b, `{"timestamp": %d, "hash_ids": %s}`+"\n", i, strings.ReplaceAll(fmt.Sprint(chain), " ", ","))
	}
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func config(t *testing.T, requests int, fault string) Config {
	return Config{
		TracePath: writeTrace(t, requests), Dir: filepath.Join(t.TempDir(), "store"),
		BlockBytes: 3000, CapacityBytes: 1 << 30, Open: openFake(fault),
	}
}

func TestRunHonest(t *testing.T) {
	for _, workers := range []int{1, 4} {
		c := config(t, 40, "")
		c.Concurrency = workers
		calls := 0
		c.Progress = func(done, total int) {
			if calls++; done != calls || total != 40 {
				t.Errorf("progress %d of %d at call %d", done, total, calls)
			}
		}
		r, err := Run(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if broken := r.Broken(); len(broken) > 0 || len(r.Problems) > 0 {
			t.Errorf("broken %v, problems %v", broken, r.Problems)
		}
		if r.Requests != 40 || r.Blocks != 40/2*(7+13) || r.Stored != 40*6+1 {
			t.Errorf("requests %d, blocks %d, stored %d", r.Requests, r.Blocks, r.Stored)
		}
		if workers == 1 && r.HitRate != r.HitRateInfinite {
			t.Errorf("hit rate %v of a store without limits, %v of an infinite cache", r.HitRate, r.HitRateInfinite)
		}
		if r.VerifiedBytes != int64(r.HitRate*float64(r.Blocks)+0.5)*3000 || r.PutBytes != r.Stored*3000 {
			t.Errorf("verified %d bytes, put %d", r.VerifiedBytes, r.PutBytes)
		}
		if r.WrittenBytes != 1011*(r.Stored+r.Existed) || r.WriteAmplification <= 0 {
			t.Errorf("written %d, amplification %v", r.WrittenBytes, r.WriteAmplification)
		}
		if r.DiskBytesMax < r.PutBytes || r.DiskSamples < 2 {
			t.Errorf("disk %d bytes in %d samples", r.DiskBytesMax, r.DiskSamples)
		}
	}
}

func TestRunSeesBrokenPromises(t *testing.T) {
	for _, c := range []struct {
		fault, status, problem string
		wrong                  int64 // at least
	}{
		{faultWrongByte, "OK", "1 wrong bytes, the first at 1500", 1},
		{faultSwap, "OK", "wrong bytes, the first at 0", 2000},
		{faultShort, "OK", "OK with 2999 bytes of 3000", 3000},
		{faultDirty, "Corrupt", "bytes of the destination changed", 2000},
		{faultSilent, "None", "None, but", 2000},
		{faultExpired, "Miss", "", 0},
	} {
		t.Run(c.fault, func(t *testing.T) {
			r, err := Run(t.Context(), config(t, 4, c.fault))
			if err != nil {
				t.Fatal(err)
			}
			if (len(r.Broken()) > 0) != (c.wrong > 0) || r.WrongBytes < c.wrong {
				t.Errorf("%d wrong bytes, broken %v", r.WrongBytes, r.Broken())
			}
			if r.Statuses.Get[c.status] == 0 || !strings.Contains(fmt.Sprint(r.Problems), c.problem) {
				t.Errorf("statuses %v, problems %q", r.Statuses, r.Problems)
			}
			if r.HitRate >= r.HitRateInfinite {
				t.Errorf("hit rate %v counts hits that were none", r.HitRate)
			}
		})
	}
}

func TestRunCounts(t *testing.T) {
	r, err := Run(t.Context(), config(t, 6, faultShed))
	if err != nil || r.Shed == 0 || r.Shed != r.Statuses.Put["Shed"] || r.Existed == 0 {
		t.Errorf("shed %d, existed %d, statuses %v, %v", r.Shed, r.Existed, r.Statuses, err)
	}
	r, err = Run(t.Context(), config(t, 6, faultMatch))
	if err != nil || r.MatchErrors != 6 || r.HitRate != 0 {
		t.Errorf("match errors %d, hit rate %v, %v", r.MatchErrors, r.HitRate, err)
	}
	c := config(t, 6, "")
	c.CapacityBytes = 4096
	if r, err = Run(t.Context(), c); err != nil || !strings.Contains(fmt.Sprint(r.Broken()), "capacity") {
		t.Errorf("a store over its capacity: %v, %v", r.Broken(), err)
	}
}

func TestRunRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Config)
		want   error
		text   string
	}{
		"no trace":              {func(c *Config) { c.TracePath += ".absent" }, fs.ErrNotExist, "absent"},
		"not a trace":           {func(c *Config) { c.TracePath = filepath.Join("testdata", "nothing.txt") }, trace.ErrFormat, "not a trace"},
		"block of 0 bytes":      {func(c *Config) { c.BlockBytes = 0 }, ErrConfig, "block size"},
		"block over the limit":  {func(c *Config) { c.BlockBytes = 64<<20 + 1 }, ErrConfig, "block size"},
		"negative requests":     {func(c *Config) { c.Requests = -1 }, ErrConfig, "negative"},
		"too many workers":      {func(c *Config) { c.Concurrency = 1000 }, ErrConfig, "concurrency"},
		"kill after the end":    {func(c *Config) { c.KillAfter = 4 }, ErrConfig, "kill-after 4"},
		"kill without a child":  {func(c *Config) { c.KillAfter = 1 }, ErrConfig, "command line"},
		"child that is absent":  {func(c *Config) { c.KillAfter, c.Child = 1, []string{"/nonexistent"} }, fs.ErrNotExist, "start the child"},
		"child that does other": {func(c *Config) { c.KillAfter, c.Child = 1, []string{os.Args[0], "-test.list", "^$"} }, ErrChild, "before it was killed"},
		"store does not open":   {func(c *Config) { c.Open = openFake(faultOpen) }, nil, "does not open"},
		"match beyond the end":  {func(c *Config) { c.Open = openFake(faultOverMatch) }, nil, "a match of"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t, 4, "")
			c.change(&cfg)
			r, err := Run(t.Context(), cfg)
			if r != nil || err == nil || (c.want != nil && !errors.Is(err, c.want)) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v, %v; want %v with %q", r, err, c.want, c.text)
			}
		})
	}
}

func TestRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	c := config(t, 40, "")
	c.Progress = func(done, _ int) {
		if done == 5 {
			cancel()
		}
	}
	if r, err := Run(ctx, c); !errors.Is(err, context.Canceled) || r != nil {
		t.Errorf("got %v, %v", r, err)
	}
}
