package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/tools/gpucheck/internal/check"
)

// absent is where no library is, on any machine.
func absent(t *testing.T) []string {
	return []string{"--cuda-lib", filepath.Join(t.TempDir(), "libcuda.so.1"), "--cufile-lib", filepath.Join(t.TempDir(), "libcufile.so.0")}
}

// Without a GPU nothing is wrong, and the report says why there is nothing.
func TestNoGPU(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "report.json")
	var stdout, stderr bytes.Buffer
	if status := run(context.Background(), nil, append(absent(t), "--dir", dir, "--json", file), nil, &stdout, &stderr); status != exitOK {
		t.Fatalf("status %d: %s", status, &stderr)
	}
	if !strings.Contains(stdout.String(), "not available") {
		t.Errorf("the table says\n%s", &stdout)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r check.Report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatal(err)
	}
	if r.CUDA.State != "absent" || r.CUDA.Reason == "" || len(r.GPUs) != 0 || r.Broken != 0 {
		t.Errorf("%s", b)
	}
	if !bytes.Contains(b, []byte(`"gpus": []`)) {
		t.Errorf("no list of GPUs in %s", b)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 {
		t.Errorf("left in the directory: %v, %v", left, err)
	}
}

func TestStatuses(t *testing.T) {
	interrupted, cancel := context.WithCancel(context.Background())
	cancel()
	file := filepath.Join(t.TempDir(), "no", "report.json")
	cases := []struct {
		name string
		ctx  context.Context
		args []string
		want int
		says string
	}{
		{"help", context.Background(), []string{"--help"}, exitOK, ""},
		{"unknown flag", context.Background(), []string{"--colour"}, exitUsage, "--help"},
		{"argument", context.Background(), []string{"DIR"}, exitUsage, "DIR"},
		{"size", context.Background(), []string{"--sizes", "1,0"}, exitUsage, "--sizes"},
		{"timeout", context.Background(), []string{"--timeout", "0s"}, exitUsage, "--timeout"},
		{"no such directory", context.Background(), []string{"--dir", file}, exitBroken, "no such file"},
		{"report cannot be written", context.Background(), append(absent(t), "--json", file), exitBroken, "report"},
		{"interrupted", interrupted, absent(t), exitInterrupted, "interrupted"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if got := run(c.ctx, nil, c.args, nil, &stdout, &stderr); got != c.want || !strings.Contains(stderr.String(), c.says) {
				t.Errorf("status %d, want %d: %s", got, c.want, &stderr)
			}
		})
	}
}
