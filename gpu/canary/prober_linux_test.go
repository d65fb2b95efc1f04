package canary

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sealstone/sealstone/gpu"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
)

// TestFaultChild has children fail in every way around their trial. The parent
// always comes back, says what happened, and keeps nothing: no file in the
// directory, no folder, no descriptor.
func TestFaultChild(t *testing.T) {
	tally := faulttest.New(t)
	for script, want := range map[string]struct {
		name, says string
		tried      bool
	}{
		"other nonce":           {nameAnswer, "nonce", true},
		"proven without checks": {nameAnswer, "proven without the check", true},
		"babble":                {nameAnswer, "makes no sense", false},
		"cut":                   {nameDied, "a step", true},
		"dies":                  {nameDied, `it ended with status 7 and said "last words\n"`, true},
		"killed":                {nameDied, "signal killed", true},
		"deaf":                  {nameHung, "hung", false},
		"hangs":                 {nameHung, "a step", true},
	} {
		t.Run(script, func(t *testing.T) {
			fault := tally.Try(script)
			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			dir := t.TempDir()
			before := descriptors(t)
			v := probeUntilTried(t, script, dir, want.name == nameHung, want.tried)
			if v.State != gpu.VerdictRefused || v.Name != want.name || !strings.Contains(v.Reason, want.says) || v.Tried != want.tried {
				t.Fatalf("verdict %v, tried %t, want %s with %q, tried %t", v, v.Tried, want.name, want.says, want.tried)
			}
			fault.Fire()
			if after := descriptors(t); after != before {
				t.Errorf("%d descriptors, %d before", after, before)
			}
			mustBeEmpty(t, dir)
			mustBeEmpty(t, temp)
			if _, err := os.Stat("cufile.log"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("a log in the working directory of the parent: %v", err)
			}
			fault.Survive()
		})
	}
}

// probeUntilTried asks a child of a script. One that hangs gets more time, again
// and again, until it was seen to get as far as it does.
func probeUntilTried(t *testing.T, script, dir string, hangs, tried bool) gpu.Verdict {
	t.Helper()
	for timeout := 200 * time.Millisecond; ; timeout *= 2 {
		p := scripted(t, script, here, nil)
		if hangs {
			p.o.Timeout, p.grace = timeout, 50*time.Millisecond
		}
		v, err := p.Probe(context.Background(), testGPU, dir)
		if err != nil {
			t.Fatal(err)
		}
		if !hangs || v.Tried == tried || timeout > time.Minute {
			return v
		}
	}
}

// descriptors counts what this process has open.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func mustBeEmpty(t testing.TB, dir string) {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil || len(list) > 0 {
		t.Errorf("%s has %v (%v), want nothing", dir, list, err)
	}
}

// TestHangBans: a pair whose canary hung stays refused for the life of the
// process, in other directories of the same file system and whatever changes.
func TestHangBans(t *testing.T) {
	place := testKey
	p := scripted(t, "hangs", func() gpu.VerdictKey { return place }, func(o *Options) {
		o.Timeout, o.Fresh = 100*time.Millisecond, true
	})
	p.grace = 50 * time.Millisecond
	probe := func(uuid, dir string) gpu.Verdict {
		t.Helper()
		v, err := p.Probe(context.Background(), uuid, dir)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first := probe(testGPU, t.TempDir())
	if first.Name != nameHung || first.Cached {
		t.Fatalf("first: %v", first)
	}
	place.MountID++
	dir := t.TempDir()
	if v := probe(testGPU, dir); v.Name != nameHung || !v.Cached || v.Dir != dir || !v.When.Equal(first.When) {
		t.Errorf("another directory of the file system: %v", v)
	}
	if v := p.Verdict(testGPU, dir); v.State != gpu.VerdictUnknown {
		t.Errorf("it was kept as found out: %v", v)
	}
	place.Device = "259:2"
	if v := probe(testGPU, dir); v.Cached {
		t.Errorf("another file system was not tried: %v", v)
	}
	other := "GPU-ffffffff-4455-6677-8899-aabbccddeeff"
	place.Device = "259:1"
	if v := probe(other, dir); v.Cached {
		t.Errorf("another GPU was not tried: %v", v)
	}
}

// TestUnkillable: a child that cannot be ended is left, its files too, and looked
// after later; too many of them stop all trials.
func TestUnkillable(t *testing.T) {
	p := scripted(t, "proven", here, nil)
	var kids []*stuck
	for range abandonedMax {
		k := &stuck{}
		kids = append(kids, k)
		var v gpu.Verdict
		p.settle(k, false, &v)
		if len(v.Notes) != 1 || !strings.Contains(v.Notes[0], "hangs within the kernel") || k.cleaned || !k.released {
			t.Fatalf("notes %q, child %+v", v.Notes, k)
		}
	}
	dir := t.TempDir()
	v, err := p.Probe(context.Background(), testGPU, dir)
	if err != nil || v.Name != nameTooMany {
		t.Fatalf("verdict %v (%v), want %s", v, err, nameTooMany)
	}
	kids[1].ended = true
	v, err = p.Probe(context.Background(), testGPU, dir)
	if err != nil || v.State != gpu.VerdictProven {
		t.Fatalf("verdict %v (%v) after one of them ended", v, err)
	}
	for i, k := range kids {
		if k.cleaned != k.ended {
			t.Errorf("child %d: %+v", i, k)
		}
	}
}

// stuck is a child that ends when the test says so.
type stuck struct{ ended, cleaned, released bool }

func (s *stuck) poll() bool   { return s.ended }
func (s *stuck) release()     { s.released = true }
func (s *stuck) clean() error { s.cleaned = true; return nil }

// TestProbeReuse holds a verdict to its key: while nothing changes it counts,
// in this process and, with a folder, in the next one; any change has the pair
// tried again.
func TestProbeReuse(t *testing.T) {
	for _, script := range []string{"proven", "refused"} {
		t.Run(script, func(t *testing.T) {
			cache := filepath.Join(t.TempDir(), "new")
			dir := t.TempDir()
			place := testKey
			open := func() *Prober {
				return scripted(t, script, func() gpu.VerdictKey { return place }, func(o *Options) { o.CacheDir = cache })
			}
			probe := func(p *Prober) gpu.Verdict {
				t.Helper()
				v, err := p.Probe(context.Background(), testGPU, dir)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			p := open()
			if v := probe(p); v.Cached || string(v.State) != script || v.Key != testKey || v.When.IsZero() {
				t.Fatalf("first: %+v", v)
			}
			if v := probe(p); !v.Cached || string(v.State) != script {
				t.Errorf("again: %+v", v)
			}
			if v := probe(open()); !v.Cached || string(v.State) != script || v.Key != testKey {
				t.Errorf("in a new process: %+v", v)
			}
			fresh := open()
			fresh.o.Fresh = true
			if v := probe(fresh); v.Cached {
				t.Errorf("asked for a fresh one: %+v", v)
			}
			// The child still says the old place, so that a trial shows.
			place.BootID = "another"
			for name, p := range map[string]*Prober{"this process": p, "a new process": open()} {
				v := probe(p)
				if v.Cached || v.Name != nameChanged || !strings.Contains(v.Reason, "BootID is \"another\" here and \"boot\" there") {
					t.Errorf("after a boot, %s: %+v", name, v)
				}
				if name != "this process" && (len(v.Notes) == 0 || !strings.Contains(v.Notes[0], "another place")) {
					t.Errorf("after a boot, %s: notes %q", name, v.Notes)
				}
			}
		})
	}
}

// TestPlaceChangesMeanwhile: a proof of what is not there any more proves
// nothing.
func TestPlaceChangesMeanwhile(t *testing.T) {
	asked := 0
	p := scripted(t, "proven", func() gpu.VerdictKey {
		asked++
		k := testKey
		if asked > 1 {
			k.MountID = 99
		}
		return k
	}, nil)
	v, err := p.Probe(context.Background(), testGPU, t.TempDir())
	if err != nil || v.Name != nameChanged || !strings.Contains(v.Reason, "changed during the trial: MountID") {
		t.Errorf("verdict %v (%v)", v, err)
	}
	if v := p.Verdict(testGPU, v.Dir); v.State != gpu.VerdictRefused {
		t.Errorf("known as %v", v)
	}
}

// TestDamagedCache: a kept verdict that is not as it was written is not used,
// the verdict says so, and the file is written anew.
func TestDamagedCache(t *testing.T) {
	dir, cache := t.TempDir(), t.TempDir()
	p := scripted(t, "proven", here, func(o *Options) { o.CacheDir = cache })
	if _, err := p.Probe(context.Background(), testGPU, dir); err != nil {
		t.Fatal(err)
	}
	name := p.cacheName(testGPU, dir)
	good, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	list, err := os.ReadDir(cache)
	if err != nil || len(list) != 1 {
		t.Fatalf("the folder has %v (%v), want one file", list, err)
	}
	changed := slices.Clone(good)
	changed[slices.Index(changed, '7')] ^= 1
	for what, b := range map[string][]byte{
		"empty": {}, "cut": good[:len(good)/2], "a changed byte": changed, "another version": []byte(`{"format_version":2}`),
		"null": []byte("null"), "too long": slices.Concat(good, make([]byte, cacheBytesMax)),
	} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		p := scripted(t, "proven", here, func(o *Options) { o.CacheDir = cache })
		v, err := p.Probe(context.Background(), testGPU, dir)
		if err != nil || v.Cached || v.State != gpu.VerdictProven {
			t.Errorf("%s: verdict %v (%v)", what, v, err)
		}
		if len(v.Notes) == 0 || !strings.Contains(v.Notes[0], "the kept verdict is not used: "+name) {
			t.Errorf("%s: notes %q", what, v.Notes)
		}
		if now, err := os.ReadFile(name); err != nil || len(now) < len(good)/2 {
			t.Errorf("%s: it was not written anew: %q (%v)", what, now, err)
		}
	}
	// A folder that cannot be written to is said, and costs the verdict nothing.
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(name, 0o700); err != nil {
		t.Fatal(err)
	}
	p = scripted(t, "proven", here, func(o *Options) { o.CacheDir = cache })
	v, err := p.Probe(context.Background(), testGPU, dir)
	if err != nil || v.State != gpu.VerdictProven || len(v.Notes) != 2 || !strings.Contains(v.Notes[1], "not kept for the next start") {
		t.Errorf("a folder in its place: verdict %v, notes %q (%v)", v, v.Notes, err)
	}
}

// TestCancel: who asked may go; the child ends and leaves nothing.
func TestCancel(t *testing.T) {
	dir := t.TempDir()
	p := scripted(t, "hangs", here, nil)
	ctx, cancel := context.WithCancelCause(context.Background())
	mine := errors.New("mine")
	go func() {
		// As soon as the child has made its file.
		for {
			if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
				break
			}
			time.Sleep(time.Millisecond)
		}
		cancel(mine)
	}()
	v, err := p.Probe(ctx, testGPU, dir)
	if !errors.Is(err, mine) || v.State != gpu.VerdictUnknown {
		t.Errorf("verdict %v, error %v", v, err)
	}
	mustBeEmpty(t, dir)
	if v := p.Verdict(testGPU, dir); v.State != gpu.VerdictUnknown {
		t.Errorf("known as %v", v)
	}
	if _, err := p.Probe(ctx, testGPU, dir); !errors.Is(err, mine) {
		t.Errorf("with a context that ended: %v", err)
	}
}

// TestAnswerCounts: a child that does not end after its answer is ended; the
// answer counts.
func TestAnswerCounts(t *testing.T) {
	p := scripted(t, "proven, then hangs", here, nil)
	p.grace = 100 * time.Millisecond
	dir := t.TempDir()
	v, err := p.Probe(context.Background(), testGPU, dir)
	if err != nil || v.State != gpu.VerdictProven {
		t.Errorf("verdict %v (%v)", v, err)
	}
	mustBeEmpty(t, dir)
}

// TestVM: nothing is tried in a virtual machine, but pairs that are allowed.
func TestVM(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	vm := &VM{Virtual: true, Reasons: []string{"a sign"}}
	p := scripted(t, "proven", here, func(o *Options) { o.VM, o.Allow = vm, []Pair{{testGPU, dir + "/."}} })
	for _, c := range []struct {
		gpu, dir string
		state    gpu.VerdictState
	}{
		{testGPU, dir, gpu.VerdictProven},
		{testGPU, other, gpu.VerdictRefused},
		{"GPU-ffffffff-4455-6677-8899-aabbccddeeff", dir, gpu.VerdictRefused},
	} {
		v, err := p.Probe(context.Background(), c.gpu, c.dir)
		if err != nil || v.State != c.state {
			t.Errorf("%s, %s: %v (%v)", c.gpu, c.dir, v, err)
		}
		if c.state == gpu.VerdictRefused && (v.Name != nameVM || !strings.Contains(v.Reason, "a sign") || v.Tried) {
			t.Errorf("%s, %s: %v", c.gpu, c.dir, v)
		}
	}
}

// TestRefusedUnasked: what can be seen to be in vain starts no child.
func TestRefusedUnasked(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct {
		change func(*Options)
		gpu    string
		name   string
	}{
		"no udev":                     {func(o *Options) { o.Root = dir }, testGPU, nameNoUdev},
		"no UUID":                     {nil, "0", nameNoGPU},
		"no program":                  {func(o *Options) { o.Program = nil }, testGPU, nameNoProgram},
		"a program that is not there": {func(o *Options) { o.Program = []string{"/nowhere/sealstone"} }, testGPU, "ENOENT"},
	} {
		t.Setenv("PATH", dir)
		v, err := scripted(t, "proven", here, c.change).Probe(context.Background(), c.gpu, dir)
		if err != nil || v.State != gpu.VerdictRefused || v.Name != c.name || v.Tried {
			t.Errorf("%s: %v (%v), want %s", name, v, err, c.name)
		}
	}
}
