package engine

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The scale tests measure on a real file system. SEALSTONE_SCALE_DIR names a
// directory for the store (the test's own otherwise), SEALSTONE_SCALE_BLOCKS
// the number of blocks; docs/benchmarks.md has the figures.
const scaleChildEnv = "SEALSTONE_SCALE_CHILD"

func scaleBlocks(t *testing.T) int {
	t.Helper()
	if v := os.Getenv("SEALSTONE_SCALE_BLOCKS"); v != "" {
		n, err := strconv.Atoi(v)
		if err != nil || n < 1000 {
			t.Fatalf("SEALSTONE_SCALE_BLOCKS=%q: want a number of at least 1000", v)
		}
		return n
	}
	if fullTests {
		return 1_000_000
	}
	return 3000
}

func scaleDir(t *testing.T) string {
	t.Helper()
	if v := os.Getenv("SEALSTONE_SCALE_DIR"); v != "" {
		dir, err := os.MkdirTemp(v, "scale")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir + "/store"
	}
	return t.TempDir() + "/store"
}

func scaleOptions(blocks int) Options {
	o := Options{MaxBlockBytes: 1 * mib, CallTimeout: 2 * time.Minute, OnEvent: nil}
	if blocks < 100_000 {
		o.CapacityBytes = 1 << 30
	}
	return o
}

// scaleBlock is a small block; every second one has the bytes of the one
// before it, and so becomes an alias.
func scaleBlock(i int) PutBlock {
	p := make([]byte, 256)
	binary.LittleEndian.PutUint64(p, uint64(i/2))
	cut := len(p) / 2
	return PutBlock{Hash: hashOf(i), Planes: []PlaneData{{Name: "k", Spans: [][]byte{p[:cut]}}, {Name: "v", Spans: [][]byte{p[cut:]}}}}
}

// scalePut puts blocks, the even ones first: what an alias shares has to be
// applied. Without apply they wait for the next group sync.
func scalePut(n *Namespace, from, to int, apply bool) error {
	for part := range 2 {
		var blocks []PutBlock
		for i := from + part; i < to; i += 2 {
			blocks = append(blocks, scaleBlock(i))
		}
		for i, r := range n.Put(context.Background(), blocks, PutOptions{}) {
			if r.Status != StatusOK {
				return fmt.Errorf("put of block %d: %v %w", from+part+2*i, r.Status, r.Err)
			}
		}
		if !apply {
			continue
		}
		if err := n.s.flushUpTo(context.Background()); err != nil {
			return err
		}
	}
	return nil
}

// TestScaleChild is the process that gets killed: it puts blocks, says so, and
// goes on putting.
func TestScaleChild(t *testing.T) {
	arg := os.Getenv(scaleChildEnv)
	if arg == "" {
		return // run by TestScaleReopen
	}
	count, dir, _ := strings.Cut(arg, " ")
	blocks, err := strconv.Atoi(count)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(dir, scaleOptions(blocks))
	if err != nil {
		t.Fatal(err)
	}
	go func() { // if the parent is gone nobody kills this one
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(4)
	}()
	n := mustSpace(t, s)
	step := min(20_000, blocks)
	for i := 0; ; i += step {
		if err := scalePut(n, i, i+step, i < blocks); err != nil {
			t.Fatal(err)
		}
		if i < blocks && i+step >= blocks {
			st := s.Stats()
			fmt.Printf("index %d bytes, segments %d bytes, %d pending; RSS %s\n", st.IndexBytes, st.SegmentBytes, st.PendingRecords, rss())
			fmt.Println("loaded")
		}
	}
}

// loadAndKill fills a store in a process of its own and kills that with
// SIGKILL, in the middle of puts.
func loadAndKill(t *testing.T, dir string, blocks int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestScaleChild$", "-test.timeout=0")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s", scaleChildEnv, blocks, dir))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	loaded := false
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if loaded = lines.Text() == "loaded"; loaded {
			break
		}
		t.Logf("child: %s", lines.Text())
	}
	t.Logf("loaded %d blocks in %.1f s", blocks, time.Since(start).Seconds())
	time.Sleep(900 * time.Millisecond) // some puts more, not synced yet
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	if !loaded {
		t.Fatal("the child ended before the store was full")
	}
}

// TestScaleReopen kills a process that puts blocks and opens its store again:
// every block that was acknowledged is there. What Open took is logged.
func TestScaleReopen(t *testing.T) {
	blocks, dir := scaleBlocks(t), scaleDir(t)
	loadAndKill(t, dir, blocks)
	s := scaleReopen(t, "after SIGKILL", dir, blocks)
	mustClose(t, s)
	s = scaleReopen(t, "after Close", dir, blocks)
	defer mustClose(t, s)
	scaleMatches(t, mustSpace(t, s), blocks)
	t.Logf("RSS %s", rss())
}

func scaleReopen(t *testing.T, when, dir string, blocks int) *Store {
	t.Helper()
	s, err := Open(dir, scaleOptions(blocks))
	if err != nil {
		t.Fatal(err)
	}
	st := s.Stats()
	t.Logf("opened %s in %v (%v); %d unproven; RSS %s", when, st.OpenDuration.Round(time.Millisecond), &s.openClock, st.Unproven, rss())
	for _, e := range s.Events(0) {
		t.Log(e)
	}
	n := mustSpace(t, s)
	const batch = 5000
	for from := 0; from < blocks; from += batch {
		var hashes [][]byte
		for i := from; i < min(from+batch, blocks); i++ {
			hashes = append(hashes, hashOf(i))
		}
		for i, st := range n.Has(context.Background(), hashes) {
			if st != StatusOK {
				t.Fatalf("block %d: %v", from+i, st)
			}
		}
	}
	return s
}

// scaleMatches times matches of 1,000 hashes, all stored.
func scaleMatches(t *testing.T, n *Namespace, blocks int) {
	t.Helper()
	took := make([]time.Duration, 0, 50)
	for round := range cap(took) {
		hashes := make([][]byte, 1000)
		for i := range hashes {
			hashes[i] = hashOf((round*7919 + i*104729) % blocks)
		}
		start := time.Now()
		l, err := n.Match(context.Background(), hashes)
		took = append(took, time.Since(start))
		if err != nil || l.Blocks() != len(hashes) {
			t.Fatalf("match: %v", err)
		}
		l.Release()
	}
	slices.Sort(took)
	t.Logf("match of 1,000: median %v, p90 %v", took[len(took)/2], took[len(took)*9/10])
}

// rss is the process's resident memory, as the system words it.
func rss() string {
	p, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(p)) {
		if v, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			return strings.TrimSpace(v)
		}
	}
	return "unknown"
}
