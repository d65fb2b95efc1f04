package main

import (
	"fmt"
	"path/filepath"
)

// contender is a server under test.
type contender struct {
	name string
	// program is looked for in PATH, but for Sealstone's own.
	program string
	args    func(c *config, dir string, port int) []string
	cold    bool
	newWire func() wire
	// files are read from the disk; they are dropped from the page cache.
	files func(dir string) string
}

var contenders = []contender{
	{
		name: "sealstone", program: sealstone, newWire: newRESP,
		args: func(c *config, dir string, port int) []string {
			return sealstoneArgs(c, dir, port, fmt.Sprint(c.memoryBytes))
		},
	},
	{
		name: "redis", program: "redis-server", newWire: newRESP,
		args: func(_ *config, dir string, port int) []string {
			return []string{"--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", dir}
		},
	},
	{
		name: "memcached", program: "memcached", newWire: newMemcached,
		args: func(c *config, _ string, port int) []string {
			return memcachedArgs(port, c.memoryBytes>>20)
		},
	},
	{
		name: "sealstone, disk", program: sealstone, newWire: newRESP, cold: true,
		args:  func(c *config, dir string, port int) []string { return sealstoneArgs(c, dir, port, "0") },
		files: func(dir string) string { return filepath.Join(dir, "store") },
	},
	{
		name: "memcached, extstore", program: "memcached", newWire: newMemcached, cold: true,
		args: func(c *config, dir string, port int) []string {
			return append(memcachedArgs(port, coldMemoryMiB), "-o", fmt.Sprintf(
				"ext_path=%s:%dM,ext_wbuf_size=16,ext_item_age=0,ext_item_size=512,ext_low_ttl=0,ext_threads=4,ext_recache_rate=0",
				filepath.Join(dir, "ext"), c.memoryBytes>>20))
		},
		files: func(dir string) string { return dir },
	},
}

// sealstone is the program that --sealstone names.
const sealstone = "sealstone"

// coldMemoryMiB is what memcached has beside its disk.
const coldMemoryMiB = 64

func sealstoneArgs(c *config, dir string, port int, cache string) []string {
	return []string{
		"serve", "--dir", filepath.Join(dir, "store"), "--listen", fmt.Sprintf("127.0.0.1:%d", port),
		"--http", "off", "--capacity", fmt.Sprint(4 * c.memoryBytes), "--host-cache", cache,
	}
}

func memcachedArgs(port int, memoryMiB int64) []string {
	return []string{"-l", "127.0.0.1", "-p", fmt.Sprint(port), "-m", fmt.Sprint(memoryMiB), "-I", "2m", "-t", "2", "-u", "nobody"}
}
