package disk

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestTornAppendOfVolume cuts the power at the sync of an append of every
// length: what was durable is there, the rest is a part of the append, and the
// sidecar is sound, also once more was appended.
func TestTornAppendOfVolume(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 10
	}
	holes := 0
	for n := 1; n <= 20; n++ {
		for seed := range seeds {
			durable, last := deadAt(pagesFrom(1, int(seed%5))...), deadAt(pagesFrom(100, n)...)
			cut := cutAtSync(t, durable, last, vfs.CrashOptions{Seed: seed, KeepBytes: 0.7, KeepNames: 1, TornSectorBytes: sectorBytes})
			torn := scanSidecar(t, cut)
			holes += len(torn.torn())
			v := openTestVolume(t, testOptions(cut))
			ts := wantTombstones(t, v, durable, last)
			must(t, v.AppendTombstones(1, deadAt(500)))
			if left := scanSidecar(t, cut).holes; len(left) > 0 {
				t.Fatalf("length %d, seed %d: holes %v are left", n, seed, left)
			}
			wantTombstones(t, v, append(ts, deadAt(500)...), nil)
		}
	}
	if holes < 20 {
		t.Errorf("only %d of the appends had holes", holes)
	}
}

// cutAtSync appends durable, and cuts the power when last is to be synced.
func cutAtSync(t *testing.T, durable, last []Tombstone, o vfs.CrashOptions) *vfs.Mem {
	t.Helper()
	var armed bool
	var cut *vfs.Mem
	mem := vfs.NewMem()
	v := openTestVolume(t, testOptions(vfs.WithHook(mem, func(op vfs.Op) error {
		if armed && op.Kind == vfs.OpSync && op.Name == SidecarName(1) {
			cut = mem.CrashClone(o)
		}
		return nil
	})))
	must(t, create(t, v, 1).Close())
	must(t, v.AppendTombstones(1, durable))
	armed = true
	must(t, v.AppendTombstones(1, last))
	if cut == nil {
		t.Fatal("the append was not synced")
	}
	return cut
}

func scanSidecar(t *testing.T, fs vfs.FS) tombScan {
	t.Helper()
	s := scanTombstones(readFile(t, fs, SidecarName(1)), 1, testUUID, testKey)
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s
}

// wantTombstones wants a sound sidecar with at least these tombstones, and
// none that is not allowed either.
func wantTombstones(t *testing.T, v *Volume, want, allowed []Tombstone) []Tombstone {
	t.Helper()
	ts, err := v.ReadTombstones(1)
	if err != nil {
		t.Fatalf("the sidecar is taken for damaged: %v", err)
	}
	there := map[uint32]bool{}
	for _, x := range ts {
		there[x.Page] = true
	}
	known := map[uint32]Tombstone{}
	for _, x := range append(slices.Clone(allowed), want...) {
		known[x.Page] = x
	}
	for _, x := range want {
		if !there[x.Page] {
			t.Fatalf("the tombstone of page %d is lost", x.Page)
		}
	}
	for _, x := range ts {
		if y, ok := known[x.Page]; !ok || x.Kind != y.Kind || x.Seq != y.Seq || x.Namespace != y.Namespace {
			t.Fatalf("a tombstone that nobody wrote: %+v", x)
		}
	}
	return ts
}

// TestTornAppendsOverRuns: runs that end anywhere in an append, killed or with
// the power cut, one after the other. No end of one may make the traces of
// another look like damage.
func TestTornAppendsOverRuns(t *testing.T) {
	seeds := uint64(300)
	if testing.Short() {
		seeds = 60
	}
	for seed := range seeds {
		r := &tombRuns{mem: vfs.NewMem(), rng: rand.New(rand.NewPCG(seed, 7)), page: 1}
		must(t, create(t, openTestVolume(t, testOptions(r.mem)), 1).Close())
		for n := range 6 {
			if err := r.run(); !errors.Is(err, errStop) && !errors.Is(err, ErrPoisoned) {
				t.Fatalf("seed %d, run %d: %v", seed, n, err)
			}
			v, err := OpenVolume(bufferedOptions(r.mem.CrashClone(vfs.CrashOptions{KeepAll: true})))
			must(t, err)
			wantTombstones(t, v, r.durable, r.tried)
			must(t, v.Close())
		}
	}
}

// tombRuns is a sidecar over several runs.
type tombRuns struct {
	mem            *vfs.Mem
	rng            *rand.Rand
	page           uint32 // of the next tombstone
	durable, tried []Tombstone
}

// run appends until it is stopped at one of the next operations on the
// sidecar. Its mem is then what is left.
func (r *tombRuns) run() error {
	left, ops, o := (*vfs.Mem)(nil), 1+r.rng.IntN(12), endOfRun(r.rng)
	v, err := OpenVolume(bufferedOptions(vfs.WithHook(r.mem, func(op vfs.Op) error {
		if !op.Mutates() || op.Name != SidecarName(1) {
			return nil
		}
		if ops--; ops > 0 {
			return nil
		}
		if left == nil {
			left = r.mem.CrashClone(o)
		}
		return errStop
	})))
	if err != nil {
		return err
	}
	for left == nil && err == nil {
		ts := deadAt(pagesFrom(r.page, 1+r.rng.IntN(20))...)
		r.page += uint32(len(ts))
		r.tried = append(r.tried, ts...)
		if err = v.AppendTombstones(1, ts); err == nil {
			r.durable = append(r.durable, ts...)
		}
	}
	r.mem = left
	return errors.Join(err, v.Close())
}

// bufferedOptions spare the probe of direct I/O.
func bufferedOptions(fs vfs.FS) VolumeOptions {
	o := testOptions(fs)
	o.Direct = DirectNever
	return o
}

// endOfRun draws how a run ends: killed, with the page cache living on or
// synced, or by a power cut.
func endOfRun(rng *rand.Rand) vfs.CrashOptions {
	switch rng.IntN(4) {
	case 0:
		return vfs.CrashOptions{KeepAll: true}
	case 1:
		return vfs.CrashOptions{KeepAll: true, KeepUnsynced: true}
	}
	return vfs.CrashOptions{Seed: rng.Uint64(), KeepBytes: 0.6, KeepNames: 1, TornSectorBytes: sectorBytes}
}
