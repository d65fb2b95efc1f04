package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// verdictsOf verifies a store and lists "role verdict" of each extent, by id
// of the block; ids are those of verifyStore.
func verdictsOf(t testing.TB, fs vfs.FS, o VerifyOptions) (map[string][]string, *VerifyReport) {
	t.Helper()
	out := map[string][]string{}
	ids := map[string]int{}
	for id := range 20 {
		ids[hexOf(id)] = id
	}
	o.Block = func(b BlockVerdict) error {
		name := fmt.Sprint(ids[b.Hash])
		out[name] = append(out[name], fmt.Sprintf("%s %s", b.Role, b.Verdict))
		if b.Namespace != 1 || b.Pages == 0 && b.Page != 0 {
			t.Errorf("%+v", b)
		}
		return nil
	}
	r, err := verify(context.Background(), "mem", o, testOptions(fs).private)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range out {
		slices.Sort(v)
	}
	return out, r
}

func wantVerdicts(t testing.TB, got map[string][]string, want string) {
	t.Helper()
	var lines []string
	for name, v := range got {
		lines = append(lines, name+": "+strings.Join(v, ", "))
	}
	slices.Sort(lines)
	if s := strings.Join(lines, "\n"); s != strings.TrimSpace(want) {
		t.Errorf("verdicts\n%s\nwant\n%s", s, strings.TrimSpace(want))
	}
}

const soundVerdicts = `
10: none orphan
11: none dead
1: block ok
2: block ok
3: block ok
4: block ok
5: alias ok, block ok
7: block ok
8: alias ok, block ok
9: none orphan`

func TestVerifyVerdicts(t *testing.T) {
	sound := verifyStore(t)
	got, r := verdictsOf(t, sound, VerifyOptions{})
	wantVerdicts(t, got, soundVerdicts)
	if n := r.Namespaces; len(n) != 1 || n[0].Number != 1 || n[0].Tenant != "tenant" || n[0].Model == "" || n[0].Blocks != r.Blocks || n[0].LostBlocks != 0 || n[0].RawBytes == 0 {
		t.Errorf("%+v", n)
	}
	l3, l4, l7 := mustLocate(t, sound, 3), mustLocate(t, sound, 4), mustLocate(t, sound, 7)
	l1, l8 := mustLocate(t, sound, 1), mustLocate(t, sound, 8)
	all := allExtents(t, sound)
	for name, c := range map[string]struct {
		damage func(fs *vfs.Mem)
		want   map[string]string // what differs
		lost   int64
	}{
		"payload": {func(fs *vfs.Mem) { flipAt(t, fs, l4.File, l4.PayloadOffset) },
			map[string]string{"4: block ok": "4: block damaged"}, 1},
		"shared payload": {func(fs *vfs.Mem) { flipAt(t, fs, l3.File, l3.PayloadOffset) },
			map[string]string{"3: block ok": "3: block damaged", "alias ok, block ok": "alias ok, block damaged"}, 3},
		"alias": {func(fs *vfs.Mem) { flipAt(t, fs, l8.AliasFile, l8.AliasOffset+90) },
			map[string]string{"8: alias ok": "8: alias damaged"}, 0},
		"padding": {func(fs *vfs.Mem) { flipAt(t, fs, l1.File, l1.PayloadOffset+9) },
			map[string]string{"1: block ok": "1: block padding"}, 0},
		"dead": {func(fs *vfs.Mem) { flipAt(t, fs, l1.File, all[string(hashOf(11))].Offset()+4096) },
			map[string]string{"none dead\n1:": "none dead_bad\n1:"}, 0},
		"torn": {func(fs *vfs.Mem) {
			at := all[string(hashOf(10))]
			flipAt(t, fs, disk.SegmentName(at.Segment), at.Offset()+4096)
		}, map[string]string{"10: none orphan": "10: none torn"}, 0},
		"missing": {func(fs *vfs.Mem) {
			if err := fs.Remove(l7.File); err != nil {
				t.Fatal(err)
			}
		}, map[string]string{"10: none orphan\n": "", "7: block ok": "7: block missing", "8: alias ok": "8: alias missing"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			fs := sound.CrashClone(vfs.CrashOptions{KeepAll: true})
			c.damage(fs)
			want := soundVerdicts
			for old, with := range c.want {
				if !strings.Contains(want, old) {
					t.Fatalf("%q is not there to be replaced", old)
				}
				want = strings.ReplaceAll(want, old, with)
			}
			got, r := verdictsOf(t, fs, VerifyOptions{})
			wantVerdicts(t, got, want)
			if r.Namespaces[0].LostBlocks != c.lost {
				t.Errorf("%+v", r.Namespaces)
			}
		})
	}
}

// TestVerifyVerdictsRebuild: without an index the blocks are those that a
// rebuild keeps.
func TestVerifyVerdictsRebuild(t *testing.T) {
	fs := verifyStore(t)
	if err := fs.RemoveAll(indexDir); err != nil {
		t.Fatal(err)
	}
	got, r := verdictsOf(t, fs, VerifyOptions{})
	wantVerdicts(t, got, soundVerdicts)
	if r.Namespaces[0].Blocks != 7 {
		t.Errorf("%+v", r.Namespaces)
	}
}

func TestVerifyBlockFails(t *testing.T) {
	stop := errors.New("stop")
	calls := 0
	o := VerifyOptions{Block: func(BlockVerdict) error { calls++; return stop }}
	r, err := verify(context.Background(), "mem", o, testOptions(verifyStore(t)).private)
	if r != nil || !errors.Is(err, stop) || calls != 1 {
		t.Errorf("%v, %v, %d calls", r, err, calls)
	}
}
