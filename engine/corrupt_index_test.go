package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// The index is Pebble's, which ends the process where it meets damage, unless
// it is kept from that. So its files are damaged in a child process: the test
// binary runs itself with this variable set to a job.
const indexChildEnv = "SEALSTONE_INDEX_FLIPS"

// indexJob is a list of bytes of files under Dir/index to be damaged, one at a
// time, in a copy of the store.
type indexJob struct {
	Dir   string
	Flips []indexFlip
}

type indexFlip struct {
	File   string
	Offset int64
}

func init() {
	if job := os.Getenv(indexChildEnv); job != "" {
		os.Exit(indexChild(job))
	}
}

// diskVictim is a small store in a real directory.
func diskVictimOptions() Options {
	o := victimOptions(nil)
	o.CapacityBytes = 16 * mib
	return o
}

var diskVictimBlocks = []victimBlock{{1, 1, 0, 3}, {2, 2, 0, 9000}, {3, 3, 0, 70000}, {4, 2, 0, 9000}}

// indexChild damages, opens, gets, closes, and opens again: damage that is
// met must not be met for ever.
func indexChild(arg string) int {
	var job indexJob
	if err := json.Unmarshal([]byte(arg), &job); err != nil {
		fmt.Println("job:", err)
		return 3
	}
	for i, f := range job.Flips {
		fmt.Print(damageLine(f)) // the last line names what killed us
		work := filepath.Join(job.Dir, fmt.Sprintf("work%d", i))
		if err := damagedCopy(filepath.Join(job.Dir, "store"), work, f); err != nil {
			fmt.Println(err)
			return 3
		}
		if err := openDamaged(work); err != nil {
			fmt.Println(err)
			return 4
		}
		if err := os.RemoveAll(work); err != nil {
			fmt.Println(err)
			return 3
		}
	}
	fmt.Println("all done")
	return 0
}

func damagedCopy(from, to string, f indexFlip) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return err
	}
	name := filepath.Join(to, "index", f.File)
	p, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	p[f.Offset] ^= flipMask(f.Offset)
	return os.WriteFile(name, p, 0o600)
}

func openDamaged(dir string) error {
	for round := range 2 {
		vd, health, err := readDisk(dir)
		if err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
		if len(vd.wrong) > 0 {
			return fmt.Errorf("round %d: %q", round, vd.wrong)
		}
		if lost := vd.lost(); len(lost) > 0 && (round > 0 || health.State != HealthAllMiss) {
			return fmt.Errorf("round %d: blocks %v are lost, health %v", round, lost, health)
		}
	}
	return nil
}

func readDisk(dir string) (*verdict, Health, error) {
	s, err := Open(dir, diskVictimOptions())
	if err != nil {
		return nil, Health{}, err
	}
	vd := &verdict{status: map[int]Status{}}
	n, err := s.Namespace(context.Background(), testLayout(), "tenant", NamespaceOptions{})
	if err != nil {
		return nil, Health{}, err
	}
	for _, b := range diskVictimBlocks {
		vd.get(n, b, false)
	}
	h := s.Health()
	return vd, h, s.Close(context.Background())
}

// TestFaultIndexFiles: whichever byte of the index is damaged, the process
// lives, no byte comes out wrong, and the index is rebuilt: at once if Open
// meets the damage, else by the next Open.
func TestFaultIndexFiles(t *testing.T) {
	dir := t.TempDir()
	store := filepath.Join(dir, "store")
	v := &victimStore{}
	s, err := Open(store, diskVictimOptions())
	if err != nil {
		t.Fatal(err)
	}
	n := mustSpace(t, s)
	v.put(t, n, diskVictimBlocks[:3]...)
	mustFlush(t, s)
	v.put(t, n, diskVictimBlocks[3:]...)
	mustFlush(t, s)
	mustClose(t, s)
	files, err := os.ReadDir(filepath.Join(store, "index"))
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, f := range files {
		info, err := f.Info()
		if err != nil || info.Size() == 0 {
			continue
		}
		kinds[indexFileKind(f.Name())]++
		t.Run(f.Name(), func(t *testing.T) {
			t.Parallel()
			runIndexJob(t, indexJob{Dir: dir, Flips: flipsOf(f.Name(), info.Size())})
		})
	}
	for _, k := range []string{"sst", "MANIFEST", "OPTIONS"} {
		if kinds[k] == 0 {
			t.Errorf("no %s among %v", k, files)
		}
	}
}

func indexFileKind(name string) string {
	if strings.HasSuffix(name, ".sst") {
		return "sst"
	}
	return strings.Split(name, "-")[0]
}

// flipsOf takes a sample spread over the file. TestFaultMediaFlipIndex takes
// every byte.
func flipsOf(name string, size int64) (out []indexFlip) {
	count := int64(24)
	if fullTests {
		count = 300
	} else if testing.Short() {
		count = 5
	}
	step := max(size/count, 1)
	for off := int64(0); off < size; off += step {
		out = append(out, indexFlip{name, off + (off/step)%min(step, size-off)})
	}
	return out
}

func runIndexJob(t *testing.T, job indexJob) {
	t.Helper()
	own := filepath.Join(t.TempDir(), "child")
	if err := os.MkdirAll(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(job.Dir, "store"), filepath.Join(own, "store")); err != nil {
		t.Fatal(err)
	}
	job.Dir = own
	arg, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), indexChildEnv+"="+string(arg))
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.HasSuffix(out, []byte("all done\n")) {
		text := string(out)
		for _, mark := range []string{"panic:", "DATA RACE"} { // with the line before
			if i := strings.Index(text, mark); i >= 0 {
				text = text[max(0, i-100):]
				break
			}
		}
		t.Fatalf("child: %v\n… %s", err, text[max(0, len(text)-12000):])
	}
	// The child checked and changed each byte before it said so.
	tally := faulttest.New(t)
	for _, f := range job.Flips {
		fault := tally.Try(fmt.Sprintf("bit of %s at %d", f.File, f.Offset))
		if bytes.Contains(out, []byte(damageLine(f))) {
			fault.Fire()
			fault.Survive()
		}
	}
	tally.Settle()
	t.Logf("%d bytes damaged one by one", len(job.Flips))
}

// damageLine is what the child says before it opens a damaged copy.
func damageLine(f indexFlip) string { return fmt.Sprintf("damage %s at %d\n", f.File, f.Offset) }
