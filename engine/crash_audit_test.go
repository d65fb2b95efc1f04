package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// auditWreck is what must hold of any wreck, whatever it held: verify finds
// no damage in it; three recoveries, each cut short by a kill, come to the
// same totals (field case 33); and none of them leaves orphans (field case 31).
// A log that was lost before, and not yet made anew, is damage.
func auditWreck(t *testing.T, rng *rand.Rand, left crashed, lostLog bool, where string) {
	t.Helper()
	mem := left.fs.CrashClone(vfs.CrashOptions{KeepAll: true})
	if _, err := mem.Stat("STORE"); err != nil {
		return // it crashed before there was a store
	}
	if !lostLog {
		wantNoDamage(t, mem, where)
	}
	var first string
	for n := range recoveries {
		where := fmt.Sprintf("%s, recovery %d", where, n+1)
		s := mustOpen(t, modelOptions(mem))
		checkIndex(t, s, where)
		wantNoOrphans(t, s, mem, where)
		got := totalsOf(t, s, mem)
		mem = mem.CrashClone(vfs.CrashOptions{KeepAll: true, KeepUnsynced: rng.IntN(2) == 0})
		mustClose(t, s)
		if n == 0 {
			first = got
		} else if got != first {
			t.Fatalf("%s comes to\n%s\nthe first came to\n%s", where, got, first)
		}
	}
	if rng.IntN(4) == 0 {
		wantNoDamage(t, mem, where+" and its recoveries")
	}
}

const recoveries = 3

func wantNoDamage(t *testing.T, mem *vfs.Mem, where string) {
	t.Helper()
	r, err := verify(context.Background(), "mem", VerifyOptions{Workers: 1}, privateOptions{fs: mem, memoryLimit: -1})
	if err != nil {
		t.Fatalf("%s: verify: %v", where, err)
	}
	if r.Damaged != 0 {
		t.Fatalf("%s: verify finds %v", where, r.Damage)
	}
}

// totalsOf recomputes what a store holds from its records and its files.
func totalsOf(t *testing.T, s *Store, mem *vfs.Mem) string {
	t.Helper()
	var out strings.Builder
	keys, aliases, live := 0, 0, map[uint64]int64{}
	homes := map[disk.Address]bool{}
	err := s.idx.Keys(context.Background(), func(k index.KeyEntry) error {
		keys++
		if k.IsAlias() {
			aliases++
		}
		if !homes[k.Address] {
			homes[k.Address] = true
			live[k.Address.Segment] += k.Bytes()
		}
		fmt.Fprintf(&out, "%d %x: %+v\n", k.Namespace, k.Hash, k.Entry)
		return nil
	})
	checked, err2 := s.idx.Check(context.Background(), s.tenantOf)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	fmt.Fprintf(&out, "%d keys, %d aliases, %d references, live bytes %v\n", keys, aliases, checked.Refs, live)
	for _, p := range checked.Problems {
		fmt.Fprintf(&out, "problem: %+v\n", p)
	}
	size := int64(0)
	walkMem(t, mem, "segments", func(name string, i vfs.Info) {
		size += i.AllocatedBytes
		fmt.Fprintf(&out, "%s %d\n", name, i.AllocatedBytes)
	})
	if have := s.vol.AllocatedBytes(); have != size {
		fmt.Fprintf(&out, "problem: segments take %d bytes on disk, the store counts %d\n", size, have)
	}
	st := s.Stats()
	if sum := sumOf(live); st.LiveBytes != sum || st.SegmentBytes != size {
		fmt.Fprintf(&out, "problem: Stats says %d live bytes and %d of segments, there are %d and %d\n", st.LiveBytes, st.SegmentBytes, sum, size)
	}
	if strings.Contains(out.String(), "problem") {
		t.Fatalf("totals:\n%s", &out)
	}
	return out.String()
}

func sumOf(m map[uint64]int64) (sum int64) {
	for _, n := range m {
		sum += n
	}
	return sum
}

func walkMem(t *testing.T, mem *vfs.Mem, dir string, fn func(name string, i vfs.Info)) {
	t.Helper()
	names, err := mem.List(dir)
	if err != nil {
		if vfs.IsNotExist(err) {
			return
		}
		t.Fatal(err)
	}
	for _, base := range names {
		name := path.Join(dir, base)
		i, err := mem.Stat(name)
		switch {
		case vfs.IsNotExist(err): // the index has removed it since it was listed
		case err != nil:
			t.Fatal(err)
		case i.IsDir:
			walkMem(t, mem, name, fn)
		default:
			fn(name, i)
		}
	}
}

// wantNoOrphans holds that every byte is accounted for once a store is open:
// each file is one that the store knows by its name, and each extent that a
// rebuild would bring back, by the table of its segment as a rule, is one that
// the index refers to, or is known to be dead by a tombstone, an epoch floor, or
// another extent of its key that is as late (of a move that was cut short).
// What a table does not list is dead space, which goes with its segment.
func wantNoOrphans(t *testing.T, s *Store, mem *vfs.Mem, where string) {
	t.Helper()
	if bytes, which := orphansOf(t, s, mem); bytes != 0 {
		t.Fatalf("%s: %d orphan bytes: %v", where, bytes, which)
	}
}

func orphansOf(t *testing.T, s *Store, mem *vfs.Mem) (bytes int64, which []string) {
	t.Helper()
	known := map[string]bool{}
	for _, i := range s.vol.Segments() {
		known[disk.SegmentName(i.ID)], known[disk.SidecarName(i.ID)] = true, true
	}
	walkMem(t, mem, ".", func(name string, i vfs.Info) {
		top, _, _ := strings.Cut(name, "/")
		ok := known[name]
		switch top {
		case "segments":
		case logDir:
			ok = s.log.Stats().Files == 1 || path.Ext(name) != ".wal"
		default:
			ok = top != oldIndexDir && slices.Contains(ours, top)
		}
		if !ok {
			bytes += max(i.AllocatedBytes, 1)
			which = append(which, name)
		}
	})
	d := deadOf(t, s)
	for _, i := range s.vol.Segments() {
		if !i.Sealed {
			bytes += i.AllocatedBytes
			which = append(which, disk.SegmentName(i.ID)+" is not sealed")
			continue
		}
		// A power cut may have torn the footer and kept the trailer behind it.
		err := (&rebuilder{s: s}).each(context.Background(), i, func(e *disk.FooterEntry) error {
			if at := (disk.Address{Segment: i.ID, Page: e.Page}); !d.explained(s, at, e) {
				bytes += int64(e.EndPage()-e.Page) * disk.PageBytes
				which = append(which, fmt.Sprintf("extent at %v of block %x, sequence %d, dropped up to %d", at, e.Hash[:4], e.Seq, d.drops[index.Key{Namespace: e.Namespace, Hash: string(e.Hash)}]))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return bytes, which
}

// dead is what the index refers to and has, and what tombstones name.
type dead struct {
	referred, buried map[disk.Address]bool
	drops, stored    map[index.Key]uint64
}

func deadOf(t *testing.T, s *Store) *dead {
	t.Helper()
	d := &dead{map[disk.Address]bool{}, map[disk.Address]bool{}, map[index.Key]uint64{}, map[index.Key]uint64{}}
	err := s.idx.Keys(context.Background(), func(k index.KeyEntry) error {
		d.referred[k.Address], d.referred[k.Own.Address], d.stored[k.Key] = true, true, k.Seq
		return nil
	})
	for _, i := range s.vol.Segments() {
		ts, err2 := s.vol.ReadTombstones(i.ID)
		if vfs.IsNotExist(err2) || errors.Is(err2, disk.ErrCorrupt) {
			// Segment and sidecar were being made, so nothing is in them.
			if entries, err := s.vol.ReadFooter(i.ID); err == nil && len(entries) == 0 {
				continue
			}
		}
		if err != nil || err2 != nil {
			t.Fatal(err, err2)
		}
		for _, x := range ts {
			d.buried[disk.Address{Segment: i.ID, Page: x.Page}] = true
			if k := (index.Key{Namespace: x.Namespace, Hash: string(x.Hash)}); x.Kind == disk.TombstoneDrop {
				d.drops[k] = max(d.drops[k], x.Seq)
			}
		}
	}
	return d
}

func (d *dead) explained(s *Store, at disk.Address, e *disk.FooterEntry) bool {
	k := index.Key{Namespace: e.Namespace, Hash: string(e.Hash)}
	return d.referred[at] || d.buried[at] || e.Seq <= max(d.drops[k], d.stored[k]) || e.Seq < s.floorLocked(e.Namespace)
}
