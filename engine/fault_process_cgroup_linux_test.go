package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// memoryGroup makes a control group with a memory limit and returns the file
// that a process enters it by, or why there can be none.
func memoryGroup(t *testing.T, limitBytes int64) (procs string, err error) {
	t.Helper()
	name := fmt.Sprintf("sealstone-test-%d", os.Getpid())
	for _, g := range []struct{ parent, limit string }{
		{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, // version 1
		{"/sys/fs/cgroup", "memory.max"},
	} {
		dir := filepath.Join(g.parent, name)
		if err = os.Mkdir(dir, 0o755); err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		if err = os.WriteFile(filepath.Join(dir, g.limit), []byte(fmt.Sprint(limitBytes)), 0o600); err == nil {
			return filepath.Join(dir, "cgroup.procs"), nil
		}
	}
	return "", err
}

// groupBytes is the group's limit.
const groupBytes = 160 << 20

// TestFaultLimitMemoryGroup is field case 50: a process in a control group
// writes several times the group's memory limit through the page cache. It is
// not killed for it, and reads what it wrote last.
func TestFaultLimitMemoryGroup(t *testing.T) {
	const env = "SEALSTONE_TEST_GROUP"
	total := int64(400 << 20)
	if fullTests {
		total = 4 << 30
	}
	if os.Getenv(childVariable) == t.Name() {
		mustDo(t, os.WriteFile(os.Getenv(env), []byte(fmt.Sprint(os.Getpid())), 0o600))
		writeThroughCache(t, total)
		return
	}
	if testing.Short() {
		t.Skip("writes 400 MiB")
	}
	procs, err := memoryGroup(t, groupBytes)
	if err != nil {
		t.Skip("no control group can be made: ", err)
	}
	tally := faulttest.New(t)
	fault := tally.Try("a memory limit that is a part of what is written")
	cmd := childOf(t, env+"="+procs)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the child: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "wrote ") {
		t.Fatalf("the child wrote nothing:\n%s", out)
	}
	fault.Fire()
	fault.Survive()
}

func writeThroughCache(t *testing.T, total int64) {
	const size = 1 << 20
	s, err := Open(filepath.Join(t.TempDir(), "store"), Options{
		CapacityBytes: 256 * mib, MaxBlockBytes: size, SegmentBytes: 16 * mib, Path: PathBuffered, FreeFloorBytes: 1,
	})
	mustDo(t, err)
	n := mustSpace(t, s)
	last := 0
	for id := 0; int64(id)*size < total; id++ {
		b := blockOf(id, 0, size)
		if r := putOne(n, b); r.Status == StatusOK {
			last = id
		} else if r.Status != StatusShed {
			t.Fatalf("put %d: %s %v", id, r.Status, r.Err)
		}
		if id%16 == 0 {
			mustFlush(t, s)
		}
	}
	for id := last - 20; id <= last; id++ {
		wantBlock(t, n, id, 0, size)
	}
	if st := s.Stats(); st.PutBytes > 2*groupBytes {
		fmt.Println("wrote", st.PutBytes)
	}
	mustClose(t, s)
}
