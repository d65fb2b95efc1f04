package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// TestMain lets the test binary stand in for the program.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == childArgument {
		os.Exit(child())
	}
	goleak.VerifyTestMain(m)
}

// TestRun: every store does all phases, in processes of their own, and the
// report has every figure.
func TestRun(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(t.TempDir(), "side.json")
	var out bytes.Buffer
	err := run(t.Context(), []string{"--dir", dir, "--bytes", "1MiB", "--block-size", "16KiB", "--batch", "8", "--rounds", "1", "--json", path}, &out, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(b, &r); err != nil || len(r.Stores) != len(contenders) || r.Blocks != 64 {
		t.Fatalf("%v, %s", err, b)
	}
	for i, s := range r.Stores {
		if s.Store != contenders[i].name || s.WrongBlocks != 0 || s.Settings == "" || s.Verified == "" {
			t.Errorf("%+v", s)
		}
		for name, f := range map[string]figure{
			"write": s.WriteMiBPerSecond, "read": s.ReadMiBPerSecond, "reopen": s.ReopenMilliseconds,
			"write memory": s.WriteRSSMiB, "read memory": s.ReadRSSMiB,
		} {
			if f.Median <= 0 || f.Min != f.Median || f.Max != f.Median {
				t.Errorf("%s: %s: %+v", s.Store, name, f)
			}
		}
		if s.DiskBytesPerByte.Median < 1 {
			t.Errorf("%s: %v bytes on disk for each byte: not all is there", s.Store, s.DiskBytesPerByte.Median)
		}
		if !strings.Contains(out.String(), s.Store) {
			t.Errorf("the table has no %s", s.Store)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestTableIsNarrow(t *testing.T) {
	f := figure{Median: 12345.678}
	r := report{Stores: []result{{Store: "pebble-blobs", WriteMiBPerSecond: f, ReadMiBPerSecond: f, WrongBlocks: 3}}}
	var b bytes.Buffer
	r.print(&b)
	table, _, _ := strings.Cut(b.String(), "pebble-blobs (")
	for line := range strings.Lines(table) {
		if len(line) > 81 {
			t.Errorf("over 80 columns: %q", line)
		}
	}
	if !strings.Contains(b.String(), "returned 3 blocks with wrong bytes") {
		t.Error("wrong bytes are not told")
	}
}

func TestParse(t *testing.T) {
	c, path, err := parse([]string{"--dir", "d", "--stores", "bbolt,file", "--bytes", "1.5MiB", "--block-size", "8192", "--batch", "4", "--json", "x"}, io.Discard)
	if err != nil || path != "x" || len(c.stores) != 2 || c.stores[0].name != "bbolt" || c.work.Blocks != 192 || c.rounds != 5 {
		t.Errorf("%+v, %q, %v", c, path, err)
	}
	for name, args := range map[string][]string{
		"no directory":   {},
		"an argument":    {"--dir", "d", "x"},
		"rounds":         {"--dir", "d", "--rounds", "0"},
		"no such store":  {"--dir", "d", "--stores", "sqlite"},
		"half a page":    {"--dir", "d", "--block-size", "2048"},
		"a large block":  {"--dir", "d", "--block-size", "65MiB"},
		"a large batch":  {"--dir", "d", "--batch", "2000"},
		"an empty batch": {"--dir", "d", "--batch", "0"},
		"too few bytes":  {"--dir", "d", "--bytes", "63MiB"},
	} {
		if _, _, err := parse(args, io.Discard); !errors.Is(err, errUsage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := parse([]string{"--help"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("help: %v", err)
	}
	for _, s := range []string{"", "x", "-1", "0", "1/2GiB", "1e3", "0.3", "99999999999999999999GiB"} {
		var b bytesFlag
		if err := b.Set(s); err == nil {
			t.Errorf("%q is taken for %d", s, b)
		}
	}
}

// TestChildFails: what a child says on standard error is in the error.
func TestChildFails(t *testing.T) {
	w, err := newWork(4096, 1<<20, 8)
	if err != nil {
		t.Fatal(err)
	}
	c := config{dir: t.TempDir(), work: w, child: self}
	if _, err := c.phase(t.Context(), order{"bbolt", phaseRead, filepath.Join(t.TempDir(), "absent"), w}); err == nil || !strings.Contains(err.Error(), "bbolt: open") {
		t.Errorf("a store that does not open: %v", err)
	}
	if _, err := c.phase(t.Context(), order{"sqlite", phaseRead, t.TempDir(), w}); err == nil || !strings.Contains(err.Error(), "no store") {
		t.Errorf("an unknown store: %v", err)
	}
	c.child = func(ctx context.Context) *exec.Cmd { return exec.CommandContext(ctx, "true") }
	if _, err := c.phase(t.Context(), order{"file", phaseWrite, t.TempDir(), w}); err == nil {
		t.Error("a child that says nothing")
	}
}
