package cli

import (
	"context"
	"encoding/json"
	"net"
	"testing"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/tools/internal/load"
	"github.com/sealstone/sealstone/tools/internal/server"
)

// TestLoadCommand: a run against a server ends with a report that finds
// nothing wrong, within the width of a terminal.
func TestLoadCommand(t *testing.T) {
	store, err := engine.Open(t.TempDir(), engine.Options{CapacityBytes: 256 << 20, SegmentBytes: 8 << 20, MaxBlockBytes: 4 << 20, FreeFloorBytes: 1, Path: engine.PathBuffered})
	if err != nil {
		t.Fatal(err)
	}
	s, err := server.New(store, server.Options{ValueBytesMax: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		if _, err := s.Shutdown(context.Background()); err == nil {
			<-served
		}
		_ = store.Close(context.Background())
	})
	args := []string{"load", "--server", l.Addr().String(), "--connections", "4", "--keys", "16", "--value-size", "100,4KiB", "--duration", "100ms"}
	status, out, errs := run(t, args...)
	if status != exitOK || errs != "" {
		t.Errorf("status %d, %q: %s", status, errs, out)
	}
	checkWidth(t, "load", out)
	status, out, _ = run(t, append(args, "--json", "--prefix", "again")...)
	var r load.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || status != exitOK || r.Right == 0 || r.Bad() > 0 {
		t.Errorf("status %d, %v, %s", status, err, out)
	}
	for _, wrong := range [][]string{{"--value-size", "x"}, {"--value-size", "1"}, {"--server", "nowhere"}} {
		if status, out, errs := run(t, append(args, wrong...)...); status != exitUsage {
			t.Errorf("%v: status %d, %s %s", wrong, status, out, errs)
		}
	}
}
