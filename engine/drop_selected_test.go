package engine

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// dropStore has blocks 0 to 39 of one tenant, each second an alias of the one
// before it, and 40 to 59 of another.
func dropStore(t *testing.T, o Options) {
	t.Helper()
	s := mustOpen(t, o)
	defer mustClose(t, s)
	n, other := mustSpace(t, s), otherSpace(t, s)
	for id := range 60 {
		b := blockOf(id/2, 0, compactBlock)
		b.Hash = hashOf(id)
		space := n
		if id >= 40 {
			space = other
		}
		mustPut(t, space, b)
		mustFlush(t, s)
	}
}

func otherSpace(t *testing.T, s *Store) *Namespace {
	t.Helper()
	n, err := s.Namespace(context.Background(), testLayout(), "another tenant", NamespaceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// wantDropped looks at the store as it is, and with index and log lost.
func wantDropped(t *testing.T, mem *vfs.Mem, dropped func(id int) bool) {
	t.Helper()
	for _, p := range []crashPlan{{}, {loseIndex: true}, {loseIndex: true, loseLog: true}} {
		clone := mem.CrashClone(vfs.CrashOptions{KeepAll: true})
		lose(t, clone, p)
		s := mustOpen(t, testOptions(clone))
		n, other := mustSpace(t, s), otherSpace(t, s)
		for id := range 60 {
			space := n
			if id >= 40 {
				space = other
			}
			got, r := getBlock(t, space, id, compactBlock)
			switch want := !dropped(id); {
			case want != (r.Status == StatusOK):
				t.Errorf("lost %+v: block %d: %v %v, want it there %v", p, id, r.Status, r.Err, want)
			case want && string(got) != string(contentOf(id/2, 0, compactBlock)):
				t.Errorf("block %d: WRONG BYTES with status OK", id)
			}
		}
		mustClose(t, s)
	}
}

func TestDropSelected(t *testing.T) {
	tenant, another, nobody := "tenant", "another tenant", "nobody"
	for _, c := range []struct {
		name    string
		o       DropOptions
		dropped func(id int) bool
		epoch   bool
		err     error
	}{
		{"a namespace", DropOptions{Selection: Selection{Namespaces: []uint32{1}}}, func(id int) bool { return id < 40 }, true, nil},
		{"a tenant", DropOptions{Selection: Selection{Tenant: &another}}, func(id int) bool { return id >= 40 }, true, nil},
		{"a tenant's hashes", DropOptions{Selection: Selection{Tenant: &tenant, Hashes: [][]byte{hashOf(3), hashOf(4), hashOf(41)}}},
			func(id int) bool { return id == 3 || id == 4 }, false, nil},
		{"sequences", DropOptions{Selection: Selection{FirstSequence: 31, EndSequence: 46}}, func(id int) bool { return id+1 >= 31 && id+1 < 46 }, false, nil},
		{"everything", DropOptions{}, func(int) bool { return true }, false, nil},
		{"a namespace that is another tenant's", DropOptions{Selection: Selection{Namespaces: []uint32{2}, Tenant: &tenant}}, nil, false, ErrInvalid},
		{"no such tenant", DropOptions{Selection: Selection{Tenant: &nobody}}, nil, false, ErrInvalid},
		{"no such namespace", DropOptions{Selection: Selection{Namespaces: []uint32{1, 9}}}, nil, false, ErrInvalid},
		{"a short hash", DropOptions{Selection: Selection{Hashes: [][]byte{{1}}}}, nil, false, ErrInvalid},
		{"a negative age", DropOptions{OlderThan: -1}, nil, false, ErrInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			mem := vfs.NewMem()
			dropStore(t, testOptions(mem))
			dry := c.o
			dry.DryRun = true
			plan, err := dropDir(context.Background(), "mem", dry, testOptions(mem).private)
			if !errors.Is(err, c.err) {
				t.Fatalf("dry run: %v, want %v", err, c.err)
			}
			wantDropped(t, mem, func(int) bool { return false })
			r, err := dropDir(context.Background(), "mem", c.o, testOptions(mem).private)
			if !errors.Is(err, c.err) {
				t.Fatalf("%v, want %v", err, c.err)
			}
			if c.err != nil {
				return
			}
			blocks := int64(0)
			for id := range 60 {
				if c.dropped(id) {
					blocks++
				}
			}
			if r.Blocks != blocks || plan.Blocks != blocks || r.RawBytes != blocks*compactBlock || r.Namespaces[0].NewEpoch != c.epoch {
				t.Errorf("planned %+v, done %+v, want %d blocks", plan, r, blocks)
			}
			wantDropped(t, mem, c.dropped)
		})
	}
}

// TestFaultDropSelectedCrash cuts the power before each operation of a drop: a
// block that is not meant is never lost, and a drop that was answered holds.
func TestFaultDropSelectedCrash(t *testing.T) {
	y := faulttest.New(t)
	modes := []vfs.CrashOptions{killed, plainCut, logKept}
	if testing.Short() && !fullTests {
		modes = modes[1:2]
	}
	r := newRig(t)
	for k := range 4 {
		r.put(k, k)
	}
	r.sealNow()
	done := false
	o := DropOptions{Selection: Selection{Hashes: [][]byte{hashOf(1), hashOf(2)}}}
	r.crashAnywhere(modes, func() {
		if rep, err := r.s.DropSelected(context.Background(), o); err != nil || rep.Blocks != 2 {
			t.Errorf("%+v, %v", rep, err)
		}
		done = true
	}, func(r *rig) {
		f := y.Try(r.where)
		f.Fire()
		r.want(0, 0)
		r.want(3, 3)
		r.absentOr(1, 1)
		r.absentOr(2, 2)
		f.Survive()
	})
	if !done {
		t.Error("the drop did not end")
	}
	r.kill(indexDir, logDir)
	r.absent(1)
	r.absent(2)
	mustClose(t, r.s)
}

// TestDropOlderThan: the age is that of the segment's last write before the
// store was opened.
func TestDropOlderThan(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	o := testOptions(nil)
	o.private.now, o.private.inMemory = time.Now, false
	put := func(from, to int) {
		s, err := Open(dir, o)
		if err != nil {
			t.Fatal(err)
		}
		n := mustSpace(t, s)
		for id := from; id < to; id++ {
			mustPut(t, n, blockOf(id, 0, compactBlock))
		}
		mustClose(t, s)
	}
	put(0, 5)
	old := time.Now().Add(-100 * time.Hour)
	if err := os.Chtimes(filepath.Join(dir, disk.SegmentName(1)), old, old); err != nil {
		t.Fatal(err)
	}
	for age, blocks := range map[time.Duration]int64{101 * time.Hour: 0, 99 * time.Hour: 5} {
		r, err := dropDir(context.Background(), dir, DropOptions{OlderThan: age, DryRun: true}, o.private)
		if err != nil || r.Blocks != blocks || r.UnknownAge != 0 {
			t.Errorf("older than %v: %+v, %v", age, r, err)
		}
	}
	r, err := dropDir(context.Background(), dir, DropOptions{OlderThan: 99 * time.Hour}, o.private)
	if err != nil || r.Blocks != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	put(5, 8)
	if r, err := dropDir(context.Background(), dir, DropOptions{OlderThan: time.Hour}, o.private); err != nil || r.Blocks != 0 {
		t.Errorf("young blocks: %+v, %v", r, err)
	}
}

// TestDropAgeUnknown: what has no age is left alone, and counted.
func TestDropAgeUnknown(t *testing.T) {
	mem := vfs.NewMem() // keeps no times
	dropStore(t, testOptions(mem))
	r, err := dropDir(context.Background(), "mem", DropOptions{OlderThan: time.Hour}, testOptions(mem).private)
	if err != nil || r.Blocks != 0 || r.UnknownAge == 0 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestDropEvidence(t *testing.T) {
	mem := vfs.NewMem()
	s := mustOpen(t, testOptions(mem))
	n, other := mustSpace(t, s), otherSpace(t, s)
	for id, space := range map[int]*Namespace{1: n, 2: other} {
		mustPut(t, space, blockOf(id, 0, compactBlock))
		mustFlush(t, s)
		k := index.Key{Namespace: space.info.Number, Hash: string(hashOf(id))}
		found, err := s.lookup(context.Background(), []index.Key{k}, false)
		if err != nil {
			t.Fatal(err)
		}
		s.quarantine(k, found[0].entry, "test")
	}
	f, err := mem.Open(quarantineDir+"/log-copy", vfs.Create|vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	mustClose(t, s)
	private := testOptions(mem).private
	for _, c := range []struct {
		o     EvidenceOptions
		files int
		kept  int
	}{
		{EvidenceOptions{DryRun: true}, 3, 0},
		{EvidenceOptions{OlderThan: time.Hour}, 0, 3}, // Mem keeps no times
		{EvidenceOptions{Namespaces: []uint32{2}}, 1, 2},
		{EvidenceOptions{Namespaces: []uint32{2}}, 0, 2},
		{EvidenceOptions{}, 2, 0},
	} {
		r, err := dropEvidenceDir(context.Background(), "mem", c.o, private)
		if err != nil || r.Files != c.files || r.Kept != c.kept {
			t.Errorf("%+v: %+v, %v", c.o, r, err)
		}
	}
	s = mustOpen(t, testOptions(mem))
	defer mustClose(t, s)
	if held := s.count.evidenceBytes.Load(); held != 0 {
		t.Errorf("%d bytes of evidence are counted, and none is there", held)
	}
	wantStatus(t, mustSpace(t, s), 1, compactBlock, StatusMiss)
}
