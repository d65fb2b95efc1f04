package vfs

import (
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// dump is a whole tree as text, one line an entry, for comparisons.
func dump(t fataler, f FS) string {
	t.Helper()
	var b strings.Builder
	var walk func(dir string)
	walk = func(dir string) {
		names, err := f.List(dir)
		if err != nil {
			t.Fatalf("List(%s): %v", dir, err)
		}
		for _, base := range names {
			name := path.Join(dir, base)
			info, err := f.Stat(name)
			if err != nil {
				t.Fatalf("Stat(%s): %v", name, err)
			}
			if info.IsDir {
				fmt.Fprintf(&b, "%s/\n", name)
				walk(name)
				continue
			}
			file, err := f.Open(name, 0)
			if err != nil {
				t.Fatalf("Open(%s): %v", name, err)
			}
			p := make([]byte, info.SizeBytes)
			if _, err := file.ReadAt(p, 0); err != nil {
				t.Fatalf("ReadAt(%s): %v", name, err)
			}
			_ = file.Close()
			fmt.Fprintf(&b, "%s %d links %q\n", name, info.Links, p)
		}
	}
	walk(".")
	return b.String()
}

// fataler is what *testing.T and *rapid.T share.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// rootNames is the files and directories of the root, joined.
func rootNames(t *testing.T, f FS) string {
	t.Helper()
	names, err := f.List(".")
	must(t, err)
	return strings.Join(names, " ")
}

// outcomes counts, over seeds, what state says of the clones.
func outcomes(m *Mem, opts CrashOptions, seeds uint64, state func(*Mem) string) map[string]int {
	seen := map[string]int{}
	for seed := range seeds {
		opts.Seed = seed
		seen[state(m.CrashClone(opts))]++
	}
	return seen
}

func wantOutcomes(t *testing.T, seen map[string]int, want ...string) {
	t.Helper()
	for _, w := range want {
		if seen[w] == 0 {
			t.Errorf("never %q in %v", w, seen)
		}
	}
	if len(seen) != len(want) {
		t.Errorf("outcomes %v, want %q only", seen, want)
	}
}

func open(t *testing.T, f FS, name string) File {
	t.Helper()
	file, err := f.Open(name, Create)
	must(t, err)
	t.Cleanup(func() { _ = file.Close() })
	return file
}

func write(t *testing.T, f File, off int64, s string) {
	t.Helper()
	_, err := f.WriteAt([]byte(s), off)
	must(t, err)
}

func TestCrashNameNeedsSyncDir(t *testing.T) {
	m := NewMem()
	file := open(t, m, "f")
	write(t, file, 0, "data")
	must(t, file.Sync())
	state := func(c *Mem) string { return dump(t, c) }
	wantOutcomes(t, outcomes(m, CrashOptions{}, 1, state), "")
	wantOutcomes(t, outcomes(m, CrashOptions{KeepNames: 0.5}, 50, state), "", "f 1 links \"data\"\n")
	must(t, m.SyncDir("."))
	wantOutcomes(t, outcomes(m, CrashOptions{}, 1, state), "f 1 links \"data\"\n")
}

func TestCrashNameWithoutBytes(t *testing.T) {
	m := NewMem()
	file := open(t, m, "f")
	write(t, file, 0, "data")
	must(t, m.SyncDir("."))
	state := func(c *Mem) string { return content(t, c, "f") }
	wantOutcomes(t, outcomes(m, CrashOptions{}, 10, state), "")
	wantOutcomes(t, outcomes(m, CrashOptions{KeepBytes: 0.5}, 50, state), "", "data")
	wantOutcomes(t, outcomes(m, CrashOptions{KeepBytes: 1}, 10, state), "data")
	must(t, file.Datasync())
	wantOutcomes(t, outcomes(m, CrashOptions{}, 10, state), "data")
}

func TestCrashWritesAreIndependentAndOrdered(t *testing.T) {
	m := NewMem()
	file := open(t, m, "f")
	write(t, file, 0, "....")
	must(t, file.Sync())
	must(t, m.SyncDir("."))
	write(t, file, 0, "aa")
	write(t, file, 1, "bb") // over one byte of the first
	state := func(c *Mem) string { return content(t, c, "f") }
	// Where both survive, the later one wins: never "aab.".
	wantOutcomes(t, outcomes(m, CrashOptions{KeepBytes: 0.5}, 100, state), "....", "aa..", ".bb.", "abb.")
}

func TestCrashTruncateIsOrderedWithWrites(t *testing.T) {
	m := NewMem()
	file := open(t, m, "f")
	write(t, file, 0, "old")
	must(t, file.Sync())
	must(t, m.SyncDir("."))
	must(t, file.Truncate(0))
	write(t, file, 0, "n")
	state := func(c *Mem) string { return content(t, c, "f") }
	wantOutcomes(t, outcomes(m, CrashOptions{KeepBytes: 0.5}, 100, state), "old", "", "nld", "n")
	must(t, file.Sync())
	wantOutcomes(t, outcomes(m, CrashOptions{KeepBytes: 0.5}, 10, state), "n")
}

func TestCrashTearsAtSectors(t *testing.T) {
	const sector = 512
	m := NewMem()
	file := open(t, m, "f")
	old := bytes.Repeat([]byte{'o'}, 4*sector)
	write(t, file, 0, string(old))
	must(t, file.Sync())
	must(t, m.SyncDir("."))
	// From the middle of sector 0 to the middle of sector 3.
	write(t, file, sector/2, strings.Repeat("n", 3*sector))
	torn := outcomes(m, CrashOptions{KeepBytes: 0.5, TornSectorBytes: sector}, 400, func(c *Mem) string {
		got := content(t, c, "f")
		kept := ""
		for i := range 4 {
			s := got[i*sector : (i+1)*sector]
			want := map[string]string{"0": string(old[:sector]), "1": strings.Repeat("n", sector)}
			if i == 0 {
				want["1"] = strings.Repeat("o", sector/2) + strings.Repeat("n", sector/2)
			} else if i == 3 {
				want["1"] = strings.Repeat("n", sector/2) + strings.Repeat("o", sector/2)
			}
			switch s {
			case want["0"]:
				kept += "0"
			case want["1"]:
				kept += "1"
			default:
				t.Fatalf("sector %d is a mixture: %q", i, s)
			}
		}
		return kept
	})
	if len(torn) != 16 {
		t.Errorf("%d combinations of 4 sectors, want 16: %v", len(torn), torn)
	}
	whole := outcomes(m, CrashOptions{KeepBytes: 0.5}, 100, func(c *Mem) string { return content(t, c, "f") })
	if len(whole) != 2 {
		t.Errorf("without tearing %d outcomes, want 2", len(whole))
	}
	for _, opts := range []CrashOptions{{KeepBytes: 0, TornSectorBytes: sector}, {KeepBytes: 1, TornSectorBytes: sector}} {
		if n := len(outcomes(m, opts, 50, func(c *Mem) string { return content(t, c, "f") })); n != 1 {
			t.Errorf("with certainty %v, %d outcomes", opts.KeepBytes, n)
		}
	}
}

func TestCrashSizeWithoutBytes(t *testing.T) {
	m := NewMem()
	file := open(t, m, "f")
	must(t, m.SyncDir("."))
	write(t, file, 0, "data")
	state := func(c *Mem) string { return content(t, c, "f") }
	wantOutcomes(t, outcomes(m, CrashOptions{KeepBytes: 0.5, TornSectorBytes: 512}, 100, state), "", "data", "\x00\x00\x00\x00")
}

func TestCrashRenameIsAtomic(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("a"))
	must(t, m.MkdirAll("b"))
	put(t, m, "a/x", "new")
	put(t, m, "b/x", "old")
	syncFiles(t, m, "a/x", "b/x")
	syncDirs(t, m, ".", "a", "b")
	before := dump(t, m)
	must(t, m.Rename("a/x", "b/x"))
	after := dump(t, m)
	state := func(c *Mem) string { return dump(t, c) }
	wantOutcomes(t, outcomes(m, CrashOptions{KeepNames: 0.5}, 50, state), before, after)
	// Either directory makes both sides durable.
	for _, dir := range []string{"a", "b"} {
		c := m.CrashClone(CrashOptions{})
		must(t, c.Rename("a/x", "b/x"))
		must(t, c.SyncDir(dir))
		wantOutcomes(t, outcomes(c, CrashOptions{}, 1, state), after)
	}
}

// TestCrashRenameChain: what a surviving rename built on survives with it; no
// file is lost or found twice.
func TestCrashRenameChain(t *testing.T) {
	m := NewMem()
	for _, dir := range []string{"a", "b", "c"} {
		must(t, m.Mkdir(dir))
	}
	put(t, m, "c/y", "1")
	syncFiles(t, m, "c/y")
	syncDirs(t, m, ".", "c")
	must(t, m.Rename("c/y", "b/x"))
	must(t, m.Rename("b/x", "a/x"))
	put(t, m, "c/y", "") // takes the place of the first
	where := func(c *Mem) string {
		found := ""
		for _, name := range []string{"a/x", "b/x", "c/y"} {
			if info, err := c.Stat(name); err == nil && info.SizeBytes > 0 {
				found += name
			}
		}
		return found
	}
	wantOutcomes(t, outcomes(m, CrashOptions{KeepNames: 0.3}, 200, where), "a/x", "b/x", "c/y")
	must(t, m.SyncDir("a"))
	wantOutcomes(t, outcomes(m, CrashOptions{KeepNames: 0.3}, 50, where), "a/x")
}

func TestCrashRemoval(t *testing.T) {
	m := NewMem()
	put(t, m, "f", "data")
	syncFiles(t, m, "f")
	must(t, m.SyncDir("."))
	must(t, m.Remove("f"))
	state := func(c *Mem) string { return dump(t, c) }
	wantOutcomes(t, outcomes(m, CrashOptions{KeepNames: 0.5}, 50, state), "", "f 1 links \"data\"\n")
	must(t, m.SyncDir("."))
	wantOutcomes(t, outcomes(m, CrashOptions{KeepNames: 0.5}, 10, state), "")
}

func TestCrashNewDirectoryNeedsItsParent(t *testing.T) {
	m := NewMem()
	must(t, m.Mkdir("d"))
	put(t, m, "d/f", "")
	must(t, m.SyncDir("d"))
	if got := rootNames(t, m.CrashClone(CrashOptions{})); got != "" {
		t.Errorf("found %q", got)
	}
	must(t, m.SyncDir("."))
	wantList(t, m.CrashClone(CrashOptions{}), "d", "f")
}

func TestCrashKeepAll(t *testing.T) {
	m := NewMem()
	must(t, m.MkdirAll("a/b"))
	put(t, m, "a/f", "unsynced")
	must(t, m.Link("a/f", "a/b/g"))
	lock, err := m.Lock("LOCK")
	must(t, err)
	defer lock.Close()
	c := m.CrashClone(CrashOptions{KeepAll: true})
	if got, want := dump(t, c), dump(t, m); got != want {
		t.Errorf("after the end of the process:\n%swant\n%s", got, want)
	}
	again, err := c.Lock("LOCK")
	if err != nil {
		t.Fatalf("the lock outlived its process: %v", err)
	}
	must(t, again.Close())
	// In the clone all is durable, so that a second crash changes nothing.
	if got, want := dump(t, c.CrashClone(CrashOptions{})), dump(t, c); got != want {
		t.Errorf("after a second crash:\n%swant\n%s", got, want)
	}
}

func TestCrashCloneIsIndependent(t *testing.T) {
	m := NewMem()
	file := open(t, m, "f")
	must(t, m.SyncDir("."))
	big := strings.Repeat("0123456789abcdef", 70<<10/16)
	write(t, file, 100, big)
	must(t, file.Sync())
	c1 := m.CrashClone(CrashOptions{})
	synced := dump(t, m)
	write(t, file, 4000, "not synced, but in the page cache")
	c2 := m.CrashClone(CrashOptions{KeepAll: true})
	before := dump(t, m)
	write(t, file, 5000, "the original goes on")
	must(t, file.Truncate(6000))
	if dump(t, c1) != synced || dump(t, c2) != before {
		t.Fatal("a write to the original shows in a clone")
	}
	after := dump(t, m)
	g := open(t, c1, "f")
	write(t, g, 50, "the clone goes on")
	must(t, g.Sync())
	write(t, g, 70000, "more")
	if dump(t, m) != after || dump(t, c2) != before {
		t.Fatal("a write to a clone shows elsewhere")
	}
	if dump(t, m.CrashClone(CrashOptions{})) != synced {
		t.Fatal("the durable state of the original changed")
	}
}

func TestCrashOfRemovedOpenFile(t *testing.T) {
	m := NewMem()
	file := open(t, m, "f")
	write(t, file, 0, strings.Repeat("x", 10*pageBytes))
	must(t, file.Sync())
	must(t, m.SyncDir("."))
	must(t, m.Remove("f"))
	must(t, m.SyncDir("."))
	c := m.CrashClone(CrashOptions{KeepAll: true})
	if m.UsedBytes() != 10*pageBytes || c.UsedBytes() != 0 {
		t.Errorf("used %d before and %d after, want %d and 0", m.UsedBytes(), c.UsedBytes(), 10*pageBytes)
	}
}

func syncFiles(t *testing.T, f FS, names ...string) {
	t.Helper()
	for _, name := range names {
		file, err := f.Open(name, ReadWrite)
		must(t, err)
		must(t, file.Sync())
		must(t, file.Close())
	}
}

func syncDirs(t *testing.T, f FS, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		must(t, f.SyncDir(dir))
	}
}

// TestCrashModel does random operations and checks what holds after any
// crash: equal seeds agree, certainty is certain, what was synced is there.
func TestCrashModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMem()
		for range rapid.IntRange(1, 60).Draw(t, "ops") {
			randomOp(t, m)
		}
		opts := CrashOptions{
			Seed:            rapid.Uint64().Draw(t, "seed"),
			KeepBytes:       rapid.Float64Range(0, 1).Draw(t, "keepBytes"),
			KeepNames:       rapid.Float64Range(0, 1).Draw(t, "keepNames"),
			TornSectorBytes: rapid.SampledFrom([]int{0, 512, 4096}).Draw(t, "sector"),
		}
		live := dump(t, m)
		one, two := m.CrashClone(opts), m.CrashClone(opts)
		if dump(t, one) != dump(t, two) {
			t.Fatalf("two clones of one seed differ:\n%s\n%s", dump(t, one), dump(t, two))
		}
		if got := dump(t, m.CrashClone(CrashOptions{KeepBytes: 1, KeepNames: 1, TornSectorBytes: 512})); got != live {
			t.Fatalf("a power cut that loses nothing lost something:\n%swant\n%s", got, live)
		}
		if got := dump(t, m.CrashClone(CrashOptions{KeepAll: true})); got != live {
			t.Fatalf("the end of the process lost something:\n%swant\n%s", got, live)
		}
		killed := m.CrashClone(CrashOptions{KeepAll: true, KeepUnsynced: true})
		if got := dump(t, killed); got != live || killed.UsedBytes() != m.UsedBytes() {
			t.Fatalf("the end of the process lost something:\n%s%d used, want\n%s%d used", got, killed.UsedBytes(), live, m.UsedBytes())
		}
		if got := dump(t, killed.CrashClone(opts)); got != dump(t, one) {
			t.Fatalf("the end of the process made something durable:\n%swant\n%s", got, dump(t, one))
		}
		if dump(t, m) != live {
			t.Fatalf("a clone changed the original")
		}
		if got := dump(t, one.CrashClone(CrashOptions{Seed: 1, KeepBytes: 0.5, KeepNames: 0.5})); got != dump(t, one) {
			t.Fatalf("not all of a clone is durable:\n%swant\n%s", got, dump(t, one))
		}
		if used := one.UsedBytes(); used != allocated(t, one) {
			t.Fatalf("the clone counts %d bytes as used, its files hold %d", used, allocated(t, one))
		}
		syncEverything(t, m)
		opts.KeepBytes, opts.KeepNames = 0, 0
		if got := dump(t, m.CrashClone(opts)); got != live {
			t.Fatalf("what was synced is lost:\n%swant\n%s", got, live)
		}
		if used := m.UsedBytes(); used != allocated(t, m) {
			t.Fatalf("%d bytes are used, the files hold %d", used, allocated(t, m))
		}
	})
}

var (
	modelDirs  = []string{".", "a", "b", "a/c"}
	modelBases = []string{"x", "y", "a", "c"}
)

// randomOp does one operation; errors are part of it.
func randomOp(t *rapid.T, m *Mem) {
	name := func(label string) string {
		return path.Join(rapid.SampledFrom(modelDirs).Draw(t, label+"Dir"), rapid.SampledFrom(modelBases).Draw(t, label))
	}
	switch rapid.SampledFrom([]string{"write", "write", "truncate", "reserve", "sync", "mkdir", "remove", "rename", "link", "syncdir"}).Draw(t, "op") {
	case "mkdir":
		_ = m.Mkdir(name("dir"))
	case "remove":
		_ = m.Remove(name("name"))
	case "rename":
		_ = m.Rename(name("from"), name("to"))
	case "link":
		_ = m.Link(name("from"), name("to"))
	case "syncdir":
		_ = m.SyncDir(rapid.SampledFrom(modelDirs).Draw(t, "dir"))
	case "sync":
		withFile(m, name("file"), func(f File) { _ = f.Datasync() })
	case "truncate":
		withFile(m, name("file"), func(f File) { _ = f.Truncate(drawOffset(t)) })
	case "reserve":
		withFile(m, name("file"), func(f File) { _ = f.Preallocate(drawOffset(t), drawOffset(t)) })
	case "write":
		withFile(m, name("file"), func(f File) {
			p := bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, rapid.IntRange(1, 6000).Draw(t, "len"))
			_, _ = f.WriteAt(p, drawOffset(t))
		})
	}
}

// drawOffset is near the places where pages and chunks meet.
func drawOffset(t *rapid.T) int64 {
	near := rapid.SampledFrom([]int64{0, 512, pageBytes, 3 * pageBytes}).Draw(t, "near")
	return max(near+int64(rapid.IntRange(-600, 600).Draw(t, "off")), 0)
}

func withFile(m *Mem, name string, f func(File)) {
	if file, err := m.Open(name, Create); err == nil {
		f(file)
		_ = file.Close()
	}
}

// walkAll calls f for each name under dir, directories first.
func walkAll(t fataler, m *Mem, dir string, f func(name string, info Info)) {
	names, err := m.List(dir)
	if err != nil {
		t.Fatalf("List(%s): %v", dir, err)
	}
	for _, base := range names {
		name := path.Join(dir, base)
		info, err := m.Stat(name)
		if err != nil {
			t.Fatalf("Stat(%s): %v", name, err)
		}
		f(name, info)
		if info.IsDir {
			walkAll(t, m, name, f)
		}
	}
}

func syncEverything(t fataler, m *Mem) {
	dirs := []string{"."}
	walkAll(t, m, ".", func(name string, info Info) {
		if info.IsDir {
			dirs = append(dirs, name)
			return
		}
		withFile(m, name, func(f File) { _ = f.Sync() })
	})
	slices.Reverse(dirs)
	for _, dir := range dirs {
		if err := m.SyncDir(dir); err != nil {
			t.Fatalf("SyncDir(%s): %v", dir, err)
		}
	}
}

// allocated sums what the files hold, each once however many names it has.
func allocated(t fataler, m *Mem) (sum int64) {
	walkAll(t, m, ".", func(name string, info Info) {
		if !info.IsDir {
			sum += info.AllocatedBytes / pageBytes * linkShares / int64(info.Links)
		}
	})
	return sum / linkShares * pageBytes
}

// linkShares divides by every number of links up to 16, which is more names
// than the model has.
const linkShares = 720720
