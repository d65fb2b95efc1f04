package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPoliciesAgreeOnWhatFits: with room for all, each policy hits every
// reference but the first to each block.
func TestPoliciesAgreeOnWhatFits(t *testing.T) {
	w := &workload{}
	for round := range 3 {
		for id := range uint64(50) {
			a := access{key: key{"", id}, sizeBytes: 1 << 20, fingerprint: id}
			w.accesses = append(w.accesses, a)
			w.count, w.bytes = w.count+1, w.bytes+a.sizeBytes
			if round == 0 {
				w.footprintBytes += a.sizeBytes
			}
		}
	}
	for _, p := range policies {
		if r := w.replay(p.make(4 * w.footprintBytes)); r.hitRate < 0.66 || r.hitRate > 0.67 || r.byteHitRate != r.hitRate {
			t.Errorf("%s: %+v", p.name, r)
		}
	}
}

func TestRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.jsonl")
	line := `{"timestamp": 0, "input_length": 1024, "output_length": 1, "hash_ids": [1, 2, 3, 4, 5, 6, 7, 8]}` + "\n"
	if err := os.WriteFile(path, []byte(strings.Repeat(line, 20)), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run([]string{"--scan", "0.3", "--mixed", path}, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"160 references", "S3-FIFO", "LRU", "| 20 % |"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	for _, args := range [][]string{nil, {"--scan", "-1", path}, {filepath.Join(t.TempDir(), "none")}} {
		if err := run(args, io.Discard, io.Discard); err == nil {
			t.Errorf("%v is taken", args)
		}
	}
}
