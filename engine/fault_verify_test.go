package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
)

// liveIDs are the stored blocks of verifyStore, by whose bytes they have.
var liveIDs = map[int][]int{1: {1}, 2: {2}, 3: {3, 5, 8}, 4: {4}, 7: {7}}

// strike changes a part of an extent in one of the ways that media have, and
// names it. bit is the flipped one, or -1.
func strike(r *rand.Rand, extent, other []byte) (name string, bit int) {
	from := r.IntN(len(extent) / sectorBytes)
	to := from + 1 + r.IntN(len(extent)/sectorBytes-from)
	part := extent[from*sectorBytes : to*sectorBytes]
	switch r.IntN(4) {
	case 0:
		bit = r.IntN(8 * len(extent))
		extent[bit/8] ^= 1 << (bit % 8)
		return fmt.Sprintf("bit %d", bit), bit
	case 1:
		clear(part)
		return fmt.Sprintf("zeros in sectors %d to %d", from, to), -1
	case 2:
		for i := range part[:min(len(part), 64)] {
			part[i] = byte(r.Uint32())
		}
		return fmt.Sprintf("garbage at sector %d", from), -1
	}
	n := copy(extent, other)
	return fmt.Sprintf("%d bytes of another extent", n), -1
}

// TestFaultVerifyVerdicts: whatever is done to the bytes of an extent, the
// verdict on every block is what a get then says, and a flipped bit is named.
// Verify itself changes nothing.
func TestFaultVerifyVerdicts(t *testing.T) {
	y := faulttest.New(t)
	sound := verifyStore(t)
	for _, seed := range seedsToRun(t, 20, 1000) {
		y.Seeds(1)
		r := rand.New(rand.NewPCG(seed, 1))
		ids := []int{1, 2, 3, 4, 7}
		id, from := ids[r.IntN(len(ids))], ids[r.IntN(len(ids))]
		l, o := mustLocate(t, sound, id), mustLocate(t, sound, from)
		extent := []byte(readRange(t, sound, l.File, l.HeaderOffset, l.HeaderBytes+l.PayloadBytes))
		other := []byte(readRange(t, sound, o.File, o.HeaderOffset, o.HeaderBytes+o.PayloadBytes))
		was := bytes.Clone(extent)
		name, bit := strike(r, extent, other)
		if bytes.Equal(was, extent) {
			continue // zeros on zeros, or an extent on itself
		}
		f := y.Try(fmt.Sprintf("seed %d: block %d: %s", seed, id, name))
		fs := sound.CrashClone(vfs.CrashOptions{KeepAll: true})
		overwrite(t, fs, l.File, l.HeaderOffset, extent)
		f.Fire()
		before := fs.CrashClone(vfs.CrashOptions{KeepAll: true})
		verdicts, rep := blockVerdicts(t, fs)
		wantSameTree(t, before, fs)
		agreed := verdictsAreGets(t, fs, verdicts)
		for other, sharers := range liveIDs {
			for _, s := range sharers {
				if other != id && verdicts[s] != VerdictOK {
					t.Errorf("seed %d: block %d was not struck, and is %s", seed, s, verdicts[s])
					agreed = false
				}
			}
		}
		if agreed && rep.Damaged > 0 && flipNamed(rep, l, bit) {
			f.Survive()
		} else {
			t.Errorf("seed %d: block %d: %s: %v, %v", seed, id, name, verdicts, rep.Damage)
		}
	}
}

// blockVerdicts are the verdicts on stored blocks, by id.
func blockVerdicts(t testing.TB, fs vfs.FS) (map[int]Verdict, *VerifyReport) {
	t.Helper()
	out := map[int]Verdict{}
	o := VerifyOptions{Block: func(b BlockVerdict) error {
		for id := range 12 {
			if b.Role == RoleBlock && b.Hash == hexOf(id) {
				out[id] = b.Verdict
			}
		}
		return nil
	}}
	r, err := verify(context.Background(), "mem", o, testOptions(fs).private)
	if err != nil {
		t.Fatal(err)
	}
	if len(out) != 7 {
		t.Errorf("verdicts on %d blocks of 7: %v", len(out), out)
	}
	return out, r
}

// verdictsAreGets opens the store and gets every block.
func verdictsAreGets(t testing.TB, fs vfs.FS, verdicts map[int]Verdict) bool {
	t.Helper()
	s := mustOpen(t, testOptions(fs))
	defer mustClose(t, s)
	n := mustSpace(t, s)
	same := true
	for content, ids := range liveIDs {
		for _, id := range ids {
			p, g := getBlock(t, n, id, verifySizes[content])
			if g.Status == StatusOK && string(p) != string(contentOf(content, 0, verifySizes[content])) {
				t.Fatalf("get %d: WRONG BYTES with status OK", id)
			}
			if good := verdicts[id] == VerdictOK || verdicts[id] == VerdictPadding; good != (g.Status == StatusOK) {
				t.Errorf("block %d: the verdict is %s, a get says %v (%v)", id, verdicts[id], g.Status, g.Err)
				same = false
			}
		}
	}
	return same
}

// flipNamed reports whether a flipped bit of an extent was named, where one
// was flipped that a sum covers.
func flipNamed(r *VerifyReport, l *Location, bit int) bool {
	if bit < 0 || r.Damage[0].Kind == DamagePadding {
		return true
	}
	return slices.ContainsFunc(r.Damage[0].Diagnoses, func(d *Diagnosis) bool {
		return d.Kind == DiagnosisFlippedBit && d.Bit == 8*l.HeaderOffset+int64(bit)
	})
}

// TestFaultVerifyLostSector: a sector that can not be read costs the blocks
// that have it, and what is wrong is said of them alone.
func TestFaultVerifyLostSector(t *testing.T) {
	y := faulttest.New(t)
	sound := verifyStore(t)
	for id, sharers := range liveIDs {
		l := mustLocate(t, sound, id)
		for what, off := range map[string]int64{"header": l.HeaderOffset + 512, "payload": l.PayloadOffset} {
			f := y.Try(fmt.Sprintf("EIO in the %s of block %d", what, id))
			fs := vfs.WithHook(sound, func(op vfs.Op) error {
				if op.Kind == vfs.OpRead && op.Name == l.File && op.Offset < off+sectorBytes && off < op.Offset+op.Length {
					f.Fire()
					return syscall.EIO
				}
				return nil
			})
			verdicts, r := blockVerdicts(t, fs)
			ok := r.Damaged == 1 && r.Damage[0].Kind == DamageUnreadable && r.Damage[0].Hash == l.Hash && strings.Contains(r.Damage[0].Reason, "input/output error")
			for other, v := range verdicts {
				want := VerdictOK
				if slices.Contains(sharers, other) {
					want = VerdictUnreadable
				}
				ok = ok && v == want
			}
			if ok {
				f.Survive()
			} else {
				t.Errorf("%s of block %d: %v, %v", what, id, verdicts, r.Damage)
			}
		}
	}
}

// TestFaultVerifyInterrupted: the context ends at each read of a segment in
// turn. What was not read is said, and nothing is called damaged for it.
func TestFaultVerifyInterrupted(t *testing.T) {
	y := faulttest.New(t)
	sound := verifyStore(t)
	var reads atomic.Int64 // segments are opened side by side
	count := func(at int64, then func()) vfs.FS {
		reads.Store(0)
		return vfs.WithHook(sound, func(op vfs.Op) error {
			if op.Kind == vfs.OpRead && strings.HasSuffix(op.Name, ".seg") && reads.Add(1) == at {
				then()
			}
			return nil
		})
	}
	o := VerifyOptions{Workers: 1, BytesPerSecond: 1 << 40}
	if _, err := verify(context.Background(), "mem", o, testOptions(count(0, nil)).private); err != nil {
		t.Fatal(err)
	}
	total := reads.Load()
	for at := int64(1); at <= total; at++ {
		f := y.Try(fmt.Sprintf("the context ends at read %d", at))
		ctx, cancel := context.WithCancel(context.Background())
		r, err := verify(ctx, "mem", o, testOptions(count(at, func() { cancel(); f.Fire() })).private)
		cancel()
		if r == nil || r.Damaged != 0 || err != nil && (!errors.Is(err, context.Canceled) || !r.Interrupted) || err == nil && r.NotReadBytes != 0 {
			t.Errorf("read %d: %v, %+v", at, err, r)
			continue
		}
		f.Survive()
	}
}
