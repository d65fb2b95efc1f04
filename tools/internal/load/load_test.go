package load

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sealstone/sealstone/tools/internal/server"
)

// isFull reports whether the long versions of the tests were asked for.
func isFull() bool { return os.Getenv("SEALSTONE_FULL") != "" }

// smallStore is a store that load overflows: it evicts.
func smallStore() storeConfig {
	return storeConfig{
		CapacityBytes: 512 << 20, SegmentBytes: 8 << 20, MaxBlockBytes: 4 << 20, MaxInflightBytes: 64 << 20,
		HostCacheBytes: 32 << 20, LeaseDuration: time.Second,
	}
}

// smallServer bounds what connections may hold.
func smallServer() server.Options {
	return server.Options{ConnectionsMax: 1100, ValueBytesMax: 4 << 20, PipelinedBytesMax: 32 << 20, ValueMemoryBytes: 64 << 20}
}

const (
	// perConnection is what an idle connection may cost: two buffers of 16 KiB,
	// a stack, and the objects of the socket and of the runtime.
	perConnection = 96 << 10
	// atRest is what the process may hold beside all bounds: code, the index's
	// memtables and caches, buffers of the log, the runtime's own.
	atRest = 256 << 20
)

// memoryBound is what a child may have resident: its configured bounds, the
// part of them that lies on the heap twice, for the collector's sake.
func memoryBound(c childConfig) int64 {
	return c.Store.MaxInflightBytes + c.Store.HostCacheBytes + c.Server.ValueMemoryBytes + c.Server.ValueMemoryBytes/8 +
		2*(8<<20+1<<20) + 2*int64(c.Server.ConnectionsMax)*perConnection + atRest
}

// TestLoad: a thousand connections, of which some work, some are slow, and
// others rude, and not one wrong byte; the server stays within its bounds and
// holds nothing afterwards.
func TestLoad(t *testing.T) {
	dir := t.TempDir()
	c := childConfig{Dir: filepath.Join(dir, "store"), Socket: filepath.Join(dir, "s"), Store: smallStore(), Server: smallServer()}
	k := startChild(t, c)
	load := Config{
		Servers: []string{k.first.Address, "unix:" + c.Socket}, Connections: 1000, Workers: 64, Slow: 16, Rude: 8,
		Keys: 2048, ValueBytes: []int{64, 4 << 10, 64 << 10, 300_000}, Duration: 3 * time.Second, Seed: 1,
	}
	if isFull() {
		load.Duration = 10 * time.Minute
	}
	if testing.Short() {
		load.Duration = 2 * time.Second
	}
	watched := watch(t, k, c)
	report, err := Run(t.Context(), load)
	if err != nil {
		t.Fatal(err)
	}
	watched()
	state := k.state()
	var out strings.Builder
	report.Print(&out)
	t.Log(out.String())
	checkReport(t, report)
	if state.Store.EvictedBlocks+state.Store.LeasesRefused == 0 && state.Server.Kinds["plain"].Shed == 0 && report.Lost+report.AfterExists > 0 {
		t.Errorf("%d acknowledged values are gone, %d after EXISTS, though nothing was evicted or shed", report.Lost, report.AfterExists)
	}
	k.settles("nothing is held", func(s childState) bool { return s.held() == held{} })
	if n := k.state().Server.Handles; n > 1 {
		t.Errorf("%d handles for one namespace", n)
	}
	k.stop()
}

// checkReport sees what must hold under any load.
func checkReport(t *testing.T, r *Report) {
	t.Helper()
	if r.Bad() > 0 || r.RudeUntold > 0 || r.Right == 0 {
		t.Errorf("values %+v; %d rude connections untold", r.Values, r.RudeUntold)
	}
	for name, c := range r.Commands {
		if c.Errors > 0 {
			t.Errorf("%s: %d errors", name, c.Errors)
		}
	}
	if r.Broken > 0 {
		t.Errorf("%d connections broke", r.Broken)
	}
	for _, c := range []command{cmdSet, cmdGet, cmdMGet, cmdExists, cmdDel, cmdStrlen, cmdPipe, cmdPing, cmdKVPut, cmdKVGet, cmdKVMatch, cmdKVDrop} {
		if r.Commands[commandNames[c]].Calls == 0 {
			t.Errorf("no call of %s", commandNames[c])
		}
	}
}

// watch looks at the child's bounds until the function that it returns is
// called.
func watch(t *testing.T, k *child, c childConfig) (stop func()) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	var most childState
	var residentMost int64
	wg.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-done:
				return
			case <-tick.C:
			}
			s, err := k.tryAsk("state")
			if err != nil {
				t.Errorf("the child says nothing: %v", err)
				return
			}
			most.Server.Connections = max(most.Server.Connections, s.Server.Connections)
			most.Server.ValueBytes = max(most.Server.ValueBytes, s.Server.ValueBytes)
			most.Store.InflightBytes = max(most.Store.InflightBytes, s.Store.InflightBytes)
			most.Store.DiskBytesMax = max(most.Store.DiskBytesMax, s.Store.DiskBytesMax)
			most.Goroutines = max(most.Goroutines, s.Goroutines)
			residentMost = max(residentMost, resident(k.cmd.Process.Pid))
		}
	})
	return func() {
		close(done)
		wg.Wait()
		t.Logf("most: %d connections, %d goroutines, %d bytes of values, %d in flight, %d on disk, %d resident of %d",
			most.Server.Connections, most.Goroutines, most.Server.ValueBytes, most.Store.InflightBytes, most.Store.DiskBytesMax, residentMost, memoryBound(c))
		for _, b := range []struct {
			what      string
			got, most int64
		}{
			{"connections", int64(most.Server.Connections), int64(c.Server.ConnectionsMax)},
			{"bytes of values", most.Server.ValueBytes, c.Server.ValueMemoryBytes + c.Server.ValueMemoryBytes/8},
			{"bytes in flight", most.Store.InflightBytes, c.Store.MaxInflightBytes},
			{"bytes on disk", most.Store.DiskBytesMax, c.Store.CapacityBytes},
			{"bytes resident", residentMost, memoryBound(c)},
			// One for each connection, and what the store and the runtime have.
			{"goroutines", int64(most.Goroutines), int64(c.Server.ConnectionsMax) + 200},
		} {
			if b.got > b.most {
				t.Errorf("%s: %d, the bound is %d", b.what, b.got, b.most)
			}
		}
	}
}

// TestLoadOverTheLimit: connections over the limit are told so, in Redis'
// words, and the others are served.
func TestLoadOverTheLimit(t *testing.T) {
	dir := t.TempDir()
	c := childConfig{Dir: filepath.Join(dir, "store"), Socket: filepath.Join(dir, "s"), Store: smallStore(), Server: smallServer()}
	c.Server.ConnectionsMax = 10
	k := startChild(t, c)
	var open []net.Conn
	defer func() {
		for _, nc := range open {
			nc.Close()
		}
	}()
	for range c.Server.ConnectionsMax {
		nc, err := net.Dial("tcp", k.first.Address)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, nc)
	}
	k.settles("all are connected", func(s childState) bool { return s.Server.Connections == c.Server.ConnectionsMax })
	for _, server := range []string{k.first.Address, "unix:" + c.Socket} {
		network, address, err := splitAddress(server)
		if err != nil {
			t.Fatal(err)
		}
		nc, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		said, err := io.ReadAll(nc)
		nc.Close()
		if string(said) != "-ERR max number of clients reached\r\n" || err != nil {
			t.Errorf("%s: over the limit: %q, %v", network, said, err)
		}
	}
	// Two: of the run's own first look, which may not be over, and of its worker.
	open[0].Close()
	open[1].Close()
	open = open[2:]
	k.settles("two are gone", func(s childState) bool { return s.Server.Connections == c.Server.ConnectionsMax-2 })
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	r, err := Run(ctx, Config{Servers: []string{k.first.Address}, Connections: 1, Keys: 8, ValueBytes: []int{1000}, Duration: 50 * time.Millisecond})
	if err != nil || r.Broken > 0 || r.Bad() > 0 {
		t.Errorf("within the limit: %+v, %v", r, err)
	}
	if n := k.state().Server.ConnectionsRefused; n != 2 {
		t.Errorf("%d refused, want 2", n)
	}
	for _, nc := range open {
		nc.Close()
	}
	k.stop()
}
