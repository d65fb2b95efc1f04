package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// kills is how often a server is killed.
func kills() int {
	if isFull() {
		return 50
	}
	return 3
}

// largeStore has room for all that a test writes: what is acknowledged in it
// may not be evicted.
func largeStore() storeConfig {
	s := smallStore()
	s.CapacityBytes, s.HostCacheBytes = 2<<30, 8<<20
	return s
}

// background runs load until stop is called, which returns the report.
func background(t *testing.T, c Config) (stop func() *Report) {
	ctx, cancel := context.WithCancel(t.Context())
	type result struct {
		r   *Report
		err error
	}
	done := make(chan result, 1)
	c.Duration = 24 * time.Hour
	go func() {
		r, err := Run(ctx, c)
		done <- result{r, err}
	}()
	t.Cleanup(cancel)
	return func() *Report {
		t.Helper()
		cancel()
		got := <-done
		if got.err != nil {
			t.Fatal(got.err)
		}
		return got.r
	}
}

// works is a condition for settles: so many commands were answered.
func works(calls int64) func(childState) bool {
	return func(s childState) bool {
		return s.Server.Commands["SET"].Calls >= calls && s.Server.Commands["GET"].Calls >= calls
	}
}

// TestFaultServerKill: a server is killed under load again and again. Clients
// find a new one at the same socket; what they were told is stored is there,
// and every value is one that was written.
func TestFaultServerKill(t *testing.T) {
	tally := faulttest.New(t)
	dir := t.TempDir()
	c := childConfig{Dir: filepath.Join(dir, "store"), Socket: filepath.Join(dir, "s"), Store: largeStore(), Server: smallServer()}
	history := NewHistory(256)
	load := Config{
		Servers: []string{"unix:" + c.Socket}, Connections: 24, Workers: 16, Slow: 2, Rude: 2, Keys: 256,
		ValueBytes: []int{64, 1000, 9000, 40_000}, Reconnect: true, History: history,
	}
	random := rand.New(rand.NewPCG(uint64(kills()), 7))
	k := startChild(t, c)
	var sum Report
	for i := range kills() {
		fault := tally.Try(fmt.Sprintf("SIGKILL %d under load", i))
		load.Seed = uint64(i)
		stop := background(t, load)
		k.settles("clients work", works(30))
		time.Sleep(time.Duration(random.IntN(300)) * time.Millisecond)
		if evicted := k.state().Store.EvictedBlocks; evicted > 0 {
			t.Fatalf("%d blocks were evicted: the store is too small for this test", evicted)
		}
		k.kill()
		fault.Fire()
		tally.Kills(1)
		k = startChild(t, c)
		k.settles("clients are back", works(10))
		r := stop()
		checked, err := Check(t.Context(), load)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("kill %d: open again after %v; %d right before, %d connections made anew; %d keys stored, %d right after", i, k.openFor, r.Right, r.Reconnects, history.Stored(), checked.Right)
		sum.Right += r.Right + checked.Right
		if sound(t, r) && sound(t, checked) && r.Reconnects > 0 {
			fault.Survive()
		}
		tally.WrongBytes(r.Wrong + checked.Wrong)
	}
	k.stop()
	if sum.Right == 0 {
		t.Error("no value was ever read")
	}
}

// sound reports whether no promise was broken; connections may have been.
func sound(t *testing.T, r *Report) bool {
	t.Helper()
	if r.Bad()+r.Lost+r.AfterExists+r.RudeUntold == 0 {
		return true
	}
	t.Errorf("values %+v; %d lost, %d lost after EXISTS, %d rude connections untold: %q", r.Values, r.Lost, r.AfterExists, r.RudeUntold, r.Examples)
	return false
}
