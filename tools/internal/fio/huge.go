package fio

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
)

// HugeBytes is how much memory on huge pages a job takes: each thread has one
// buffer for its requests, in whole pages.
func (j Job) HugeBytes(pageBytes int64) int64 {
	threads := int64(j.Threads())
	each := int64(j.Depth)/threads*j.BlockBytes + 4096 // it aligns what it gets
	return threads * ((each + pageBytes - 1) / pageBytes * pageBytes)
}

// onHugePages is the job with its memory on huge pages if there is room for
// all of it.
func (j Job) onHugePages(pageBytes, freeBytes int64) Job {
	j.HugePages = pageBytes > 0 && j.HugeBytes(pageBytes) <= freeBytes
	return j
}

// OnHugePages is the job with its memory on huge pages if enough of them are
// free now.
func (j Job) OnHugePages() Job { return j.onHugePages(hugePages()) }

// hugePages returns the size of the system's huge pages, and how many bytes of
// them are set aside and free; 0 where there are none.
func hugePages() (pageBytes, freeBytes int64) {
	p, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, 0
	}
	return parseHugePages(p)
}

func parseHugePages(meminfo []byte) (pageBytes, freeBytes int64) {
	var free, kib int64
	for lines := bufio.NewScanner(bytes.NewReader(meminfo)); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ":")
		n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "HugePages_Free":
			free = n
		case "Hugepagesize":
			kib = n
		}
	}
	return kib << 10, free * kib << 10
}
