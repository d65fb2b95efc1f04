package engine

import (
	"context"
	"path"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
)

// TestVerifyIndexMissing: a missing index is no damage, and blocks are
// verified all the same, as a rebuild would find them.
func TestVerifyIndexMissing(t *testing.T) {
	fs := verifyStore(t)
	l4, l7 := mustLocate(t, fs, 4), mustLocate(t, fs, 7)
	if err := fs.RemoveAll(indexDir); err != nil {
		t.Fatal(err)
	}
	r := wantClean(t, fs)
	if r.Index.Rebuild == "" || r.Blocks != 7 || !strings.Contains(strings.Join(r.Notes, "\n"), "will be rebuilt") {
		t.Errorf("%d blocks, %+v, %q", r.Blocks, r.Index, r.Notes)
	}
	flipAt(t, fs, l4.File, l4.PayloadOffset)
	flipAt(t, fs, l7.File, l7.PayloadOffset) // in the segment without a footer
	r = mustVerify(t, fs)
	if r.Damaged != 2 || r.Damage[0].Hash != hexOf(4) || r.Damage[1].Hash != hexOf(7) || r.Damage[1].Kind != DamageBlock {
		t.Errorf("%v", r.Damage)
	}
}

// TestVerifyIndexDamaged flips a byte in each file of the index, here and
// there. Where the index notices it is damage of the index alone; where it
// does not the byte is one that nobody reads.
func TestVerifyIndexDamaged(t *testing.T) {
	sound := verifyStore(t)
	names, err := sound.List(indexDir)
	if err != nil {
		t.Fatal(err)
	}
	noticed := 0
	for _, n := range names {
		name := path.Join(indexDir, n)
		i, err := sound.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		for off := i.SizeBytes / 3; off < i.SizeBytes; off += 1 + i.SizeBytes/3 {
			fs := sound.CrashClone(vfs.CrashOptions{KeepAll: true})
			flipAt(t, fs, name, off)
			r := mustVerify(t, fs)
			if r.Blocks != 7 {
				t.Errorf("%s offset %d: %d blocks", name, off, r.Blocks)
			}
			if r.Damaged == 0 {
				continue
			}
			noticed++
			d := r.Damage[0]
			// A damaged last record of the manifest looks torn, and takes the
			// index back to before the log begins: then the two contradict
			// each other, and the log is named.
			if strings.HasPrefix(n, "MANIFEST") && r.Damaged == 1 && d.Kind == DamageLog {
				continue
			}
			if r.Damaged != 1 || d.Kind != DamageIndex || !strings.HasPrefix(d.File, indexDir) || r.Index.Rebuild == "" {
				t.Errorf("%s offset %d: %v", name, off, r.Damage)
			}
			if strings.HasSuffix(n, ".sst") && d.File != name {
				t.Errorf("%s offset %d: %v", name, off, d)
			}
		}
	}
	if noticed == 0 {
		t.Error("no flip in the index was noticed")
	}
}

// TestVerifyIndexDisagrees changes the index behind the store's back.
func TestVerifyIndexDisagrees(t *testing.T) {
	sound := verifyStore(t)
	key := func(id int) index.Key { return index.Key{Namespace: 1, Hash: string(hashOf(id))} }
	for name, c := range map[string]struct {
		change func(b *index.Batch) error
		want   string // in a reason
	}{
		"a header sum": {func(b *index.Batch) error {
			return rebind(b, key(4), func(e *index.Entry) { e.HeaderSum ^= 1 })
		}, "sound, but not the expected one"},
		"another's extent": {func(b *index.Batch) error {
			other, _, err := b.Get(key(7))
			if err != nil {
				return err
			}
			return rebind(b, key(4), func(e *index.Entry) { *e = other })
		}, "the extent is of block " + hexOf(7)},
		"a sequence": {func(b *index.Batch) error {
			return rebind(b, key(1), func(e *index.Entry) { e.Seq++ })
		}, "the index says"},
		"a content": {func(b *index.Batch) error {
			e, _, err := b.Get(key(1))
			if err != nil {
				return err
			}
			e.Content[3] ^= 1
			return b.SetContent(1, e.Content, e.Address)
		}, "where no key of the tenant has it"},
		"a segment that is not there": {func(b *index.Batch) error {
			return rebind(b, key(1), func(e *index.Entry) { e.Address.Segment = 77 })
		}, "the segment's file is missing"},
		"a key that is gone": {func(b *index.Batch) error {
			e, _, err := b.Get(key(4))
			if err != nil {
				return err
			}
			return b.Unbind(key(4), e, 1)
		}, "a rebuild brings it back"},
	} {
		t.Run(name, func(t *testing.T) {
			fs := sound.CrashClone(vfs.CrashOptions{KeepAll: true})
			changeIndex(t, fs, c.change)
			r := mustVerify(t, fs)
			for _, d := range r.Damage {
				if strings.Contains(d.Reason, c.want) {
					return
				}
			}
			t.Errorf("no finding says %q: %v", c.want, r.Damage)
		})
	}
}

// TestVerifyIndexMark: an index that has met damage says so, and why.
func TestVerifyIndexMark(t *testing.T) {
	fs := verifyStore(t)
	f, err := fs.Open(indexDir+"/"+index.DamageMark, vfs.Create|vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("a table is bad\n"), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r := mustVerify(t, fs)
	if r.Damaged != 1 || r.Blocks != 7 || r.Index.Rebuild == "" {
		t.Fatalf("%d blocks, %v", r.Blocks, r.Damage)
	}
	d := r.Damage[0]
	if d.Kind != DamageIndex || d.File != indexDir+"/"+index.DamageMark || !strings.Contains(d.Reason, `"a table is bad"`) {
		t.Errorf("%v", d)
	}
}

func rebind(b *index.Batch, k index.Key, change func(*index.Entry)) error {
	e, _, err := b.Get(k)
	if err != nil {
		return err
	}
	if err := b.Unbind(k, e, 1); err != nil {
		return err
	}
	change(&e)
	return b.Bind(k, e)
}

func changeIndex(t testing.TB, fs vfs.FS, change func(b *index.Batch) error) {
	t.Helper()
	ctx := context.Background()
	o := testOptions(fs)
	d, err := index.Open(ctx, index.Options{FS: fs, Dir: indexDir, UUID: o.private.uuid, CacheBytes: 1 << 20, MemTableBytes: 256 << 10})
	if err != nil {
		t.Fatal(err)
	}
	live, err := d.Live(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Update(ctx, live, change); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(ctx); err != nil {
		t.Fatal(err)
	}
}
