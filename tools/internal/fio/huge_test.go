package fio

import (
	"slices"
	"testing"
)

func TestParseHugePages(t *testing.T) {
	for _, c := range []struct {
		name, in   string
		page, free int64
	}{
		{"set aside", "MemFree: 12 kB\nHugePages_Total:     160\nHugePages_Free:      150\nHugepagesize:       2048 kB\n", 2 << 20, 300 << 20},
		{"none", "HugePages_Free:        0\nHugepagesize:       2048 kB\n", 2 << 20, 0},
		{"another size", "HugePages_Free: 1\nHugepagesize: 1048576 kB\n", 1 << 30, 1 << 30},
		{"another system", "", 0, 0},
		{"nonsense", "HugePages_Free: many\nHugepagesize\n", 0, 0},
	} {
		if page, free := parseHugePages([]byte(c.in)); page != c.page || free != c.free {
			t.Errorf("%s: pages of %d, %d free; want %d, %d", c.name, page, free, c.page, c.free)
		}
	}
}

func TestHugeBytes(t *testing.T) {
	j := Job{Engine: EngineUring, Jobs: 2, Depth: 64, BlockBytes: 1 << 20}
	if got := j.HugeBytes(2 << 20); got != 2*34<<20 {
		t.Errorf("two threads of 32 MiB: %d", got)
	}
	j.Engine = EnginePsync
	if got := j.HugeBytes(2 << 20); got != 64*2<<20 {
		t.Errorf("64 threads of 1 MiB: %d", got)
	}
}

// TestHugeArgument: huge pages are used where the whole job has room on them.
func TestHugeArgument(t *testing.T) {
	j := readJob(t)
	if slices.Contains(j.arguments(), "--mem=shmhuge") {
		t.Error("huge pages without being told")
	}
	j.HugePages = true
	if !slices.Contains(j.arguments(), "--mem=shmhuge") {
		t.Error("no huge pages")
	}
	for free, want := range map[int64]bool{0: false, 2 << 20: false, 4 << 20: true} {
		if got := j.onHugePages(2<<20, free).HugePages; got != want {
			t.Errorf("%d bytes free: %v", free, got)
		}
	}
	if j.onHugePages(0, 0).HugePages {
		t.Error("huge pages on a system without")
	}
}
