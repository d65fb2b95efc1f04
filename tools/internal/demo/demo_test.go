package demo

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/replay"
	"github.com/sealstone/sealstone/tools/internal/trace"
)

// TestMain is also the process that is killed.
func TestMain(m *testing.M) {
	if os.Getenv("DEMO_TEST_CHILD") != "" {
		if err := replay.RunChild(context.Background(), os.Stdin, os.Stdout, replay.OpenEngine); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestRun(t *testing.T) {
	t.Setenv("DEMO_TEST_CHILD", "1")
	var told []string
	r, err := Run(t.Context(), Config{
		Dir: filepath.Join(t.TempDir(), "demo"), Child: []string{os.Args[0]},
		Progress: func(done, total int, what string) {
			if done != len(told) || total != len(steps()) {
				t.Errorf("progress %d of %d at call %d", done, total, len(told))
			}
			told = append(told, what)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range r.Promises {
		if !p.Held {
			t.Errorf("broken: %s\n  how: %s\n  outcome: %s", p.Name, p.How, p.Outcome)
		}
		if p.Name == "" || p.How == "" || p.Outcome == "" {
			t.Errorf("a promise without words: %+v", p)
		}
	}
	if want := len(scenarios) + 4; len(r.Promises) != want || r.Held+r.Broken != want {
		t.Errorf("%d promises, %d held, %d broken; want %d", len(r.Promises), r.Held, r.Broken, want)
	}
	if len(told) != len(steps())+1 {
		t.Errorf("told of %d steps", len(told))
	}
}

func TestRunRefusesDirectories(t *testing.T) {
	full, file := t.TempDir(), filepath.Join(t.TempDir(), "file")
	for _, name := range []string{filepath.Join(full, "mine"), file} {
		if err := os.WriteFile(name, []byte("precious"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{full, file, filepath.Join(file, "below")} {
		if _, err := Run(t.Context(), Config{Dir: dir}); !errors.Is(err, ErrDir) {
			t.Errorf("Run in %s: %v, want ErrDir", dir, err)
		}
	}
	if b, err := os.ReadFile(filepath.Join(full, "mine")); err != nil || string(b) != "precious" {
		t.Errorf("a file of somebody else is %q, %v", b, err)
	}
}

func TestExcerpt(t *testing.T) {
	tr, err := trace.Parse("excerpt", strings.NewReader(string(excerptLines)))
	if err != nil || len(tr.Requests) != 200 || tr.InfiniteHits() == 0 {
		t.Fatalf("the bundled trace: %v", err)
	}
	if !strings.Contains(ExcerptNotice, "Mooncake") || !strings.Contains(ExcerptNotice, "Apache License") {
		t.Error("the bundled trace lacks its notice")
	}
}

// TestJudge: what makes a promise broken.
func TestJudge(t *testing.T) {
	right := finding{status: engine.StatusOK}
	miss := finding{status: engine.StatusMiss}
	corrupt := finding{status: engine.StatusCorrupt, reason: "engine: block 00ff: Corrupt: header (segments/01 offset 3): disk: corrupt: chunk 1 (of 3); more"}
	for _, c := range []struct {
		name    string
		found   []finding
		victims []int
		held    bool
		outcome string
	}{
		{"all right", []finding{right, right}, nil, true, "2 of 2 blocks right"},
		{"victim misses", []finding{right, corrupt}, []int{1}, true, "block 1: Corrupt: chunk 1; 1 of 2 blocks right"},
		{"victim without a reason", []finding{miss, right}, []int{0}, true, "block 0: Miss; 1 of 2 blocks right"},
		{"victim is served", []finding{right, right}, []int{1}, false, "block 1: served, though damaged or dropped"},
		{"another block is lost", []finding{miss, right}, nil, false, "block 0: LOST: Miss"},
		{"wrong bytes", []finding{{status: engine.StatusOK, wrong: 3}}, nil, false, "block 0: 3 WRONG BYTES with OK"},
		{"bytes beside a miss", []finding{{status: engine.StatusMiss, wrong: 3}}, []int{0}, false, "block 0: 3 WRONG BYTES with Miss"},
		{"no answer", []finding{{}}, nil, false, "block 0: LOST: None"},
		{"many misses", []finding{miss, miss, miss, miss, right}, []int{0, 1, 2, 3}, true, "block 0: Miss; block 1: Miss; 2 more misses; 1 of 5 blocks right"},
	} {
		if outcome, held := judge(c.found, c.victims); held != c.held || outcome != c.outcome {
			t.Errorf("%s: %v %q, want %v %q", c.name, held, outcome, c.held, c.outcome)
		}
	}
}

// TestWorkloadPromises: a report that shows nothing does not count as held.
func TestWorkloadPromises(t *testing.T) {
	good := func() *replay.Report {
		return &replay.Report{VerifiedBytes: 1, HitRate: 0.1, DiskSamples: 2, CapacityBytes: 1,
			KillReport: &replay.KillReport{Acknowledged: 1, ReopenFound: 1, Dropped: 1}}
	}
	held := func(r *replay.Report) (held []bool) {
		for _, p := range workloadPromises(r) {
			held = append(held, p.Held)
		}
		return held
	}
	if got := held(good()); slices.Contains(got, false) {
		t.Errorf("a good report: %v", got)
	}
	for name, c := range map[string]struct {
		change func(*replay.Report)
		broken int
	}{
		"wrong bytes":       {func(r *replay.Report) { r.WrongBytes = 1 }, 0},
		"nothing verified":  {func(r *replay.Report) { r.VerifiedBytes = 0 }, 0},
		"missing":           {func(r *replay.Report) { r.ReopenFound = 0 }, 1},
		"wrong after":       {func(r *replay.Report) { r.ReopenWrong = 1 }, 1},
		"none acknowledged": {func(r *replay.Report) { r.Acknowledged, r.ReopenFound = 0, 0 }, 1},
		"came back":         {func(r *replay.Report) { r.Resurrected = 1 }, 2},
		"none dropped":      {func(r *replay.Report) { r.Dropped = 0 }, 2},
		"over capacity":     {func(r *replay.Report) { r.DiskBytesMax = 2 }, 3},
		"never looked":      {func(r *replay.Report) { r.DiskSamples = 0 }, 3},
	} {
		r := good()
		c.change(r)
		if got := held(r); got[c.broken] || slices.Index(got, false) != c.broken {
			t.Errorf("%s: %v, want only promise %d broken", name, got, c.broken)
		}
	}
}
