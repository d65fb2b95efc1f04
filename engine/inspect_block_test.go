package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

func TestInspectBlock(t *testing.T) {
	ctx := context.Background()
	sound := verifyStore(t)
	i := mustInspect(t, sound)
	b, err := i.Block(ctx, 1, hashOf(4))
	if err != nil || b.Problem != "" || b.Own != nil || len(b.Sharers) != 0 || len(b.Chunks) != 2 || len(b.Diagnoses) != 0 || b.Extent.Hash != hexOf(4) {
		t.Fatalf("%+v, %v", b, err)
	}
	if c := b.Chunks[1]; c.Plane != "v" || c.Offset != b.PayloadOffset+24576 || c.StoredBytes != c.RawBytes || c.Problem != "" || len(c.RawSum) != 16 {
		t.Errorf("%+v", c)
	}
	// 5 and 8 share the bytes of 3.
	b, err = i.Block(ctx, 1, hashOf(8))
	if err != nil || b.Problem != "" || b.Own == nil || b.Own.Hash != hexOf(8) || b.Extent.Hash != hexOf(3) || len(b.Sharers) != 2 {
		t.Errorf("%+v, %v", b, err)
	}
	if _, err = i.Block(ctx, 1, hashOf(9)); !errors.Is(err, ErrMiss) {
		t.Errorf("a dropped block: %v", err)
	}
}

func TestInspectBlockDamaged(t *testing.T) {
	ctx := context.Background()
	sound := verifyStore(t)
	l := mustLocate(t, sound, 4)

	fs := sound.CrashClone(vfs.CrashOptions{KeepAll: true})
	flipAt(t, fs, l.File, l.PayloadOffset+30000)
	b, err := mustInspect(t, fs).Block(ctx, 1, hashOf(4))
	if err != nil || b.Problem == "" || b.Chunks[0].Problem != "" || b.Chunks[1].Problem == "" || len(b.Diagnoses) != 1 || b.Diagnoses[0].Kind != DiagnosisFlippedBit {
		t.Errorf("a chunk: %+v, %v", b, err)
	}

	fs = sound.CrashClone(vfs.CrashOptions{KeepAll: true})
	overwrite(t, fs, l.File, l.HeaderOffset, make([]byte, 4096))
	b, err = mustInspect(t, fs).Block(ctx, 1, hashOf(4))
	if err != nil || b.Problem == "" || b.Extent != nil || len(b.Chunks) != 0 || len(b.Diagnoses) != 1 || b.Diagnoses[0].Kind != DiagnosisZeros {
		t.Errorf("the header: %+v, %v", b, err)
	}

	fs = sound.CrashClone(vfs.CrashOptions{KeepAll: true})
	if err := fs.Remove(l.File); err != nil {
		t.Fatal(err)
	}
	b, err = mustInspect(t, fs).Block(ctx, 1, hashOf(4))
	if err != nil || !strings.Contains(b.Problem, "file is missing") {
		t.Errorf("the file: %+v, %v", b, err)
	}
}

// TestInspectBlockParents: the chain is followed to its root, or to the first
// block that is not stored.
func TestInspectBlockParents(t *testing.T) {
	fs := vfs.NewMem()
	s := mustOpen(t, testOptions(fs))
	n := mustSpace(t, s)
	for id := 1; id <= 4; id++ {
		b := blockOf(id, 0, 3000)
		if id > 1 {
			b.Parent = hashOf(id - 1)
		}
		mustPut(t, n, b)
	}
	mustFlush(t, s)
	mustClose(t, s)
	wantParents(t, fs, true, true, true)
	s = mustOpen(t, testOptions(fs))
	verifyDrop(t, mustSpace(t, s), 2)
	mustClose(t, s)
	wantParents(t, fs, true, false)
}

// wantParents looks at block 4, whose parents are 3, 2 and 1.
func wantParents(t *testing.T, fs vfs.FS, stored ...bool) {
	t.Helper()
	i, err := inspect("mem", testOptions(fs).private)
	if err != nil {
		t.Fatal(err)
	}
	b, err := i.Block(context.Background(), 1, hashOf(4))
	if err := errors.Join(err, i.Close()); err != nil {
		t.Fatal(err)
	}
	if len(b.Parents) != len(stored) {
		t.Fatalf("%+v", b.Parents)
	}
	for i, p := range b.Parents {
		if p.Hash != hexOf(3-i) || p.Stored != stored[i] {
			t.Errorf("parent %d: %+v", i, p)
		}
	}
}
