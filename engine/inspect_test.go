package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

func mustInspect(t testing.TB, fs vfs.FS) *Inspector {
	t.Helper()
	i, err := inspect("mem", testOptions(fs).private)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return i
}

func TestInspectStore(t *testing.T) {
	fs := verifyStore(t)
	before := fs.CrashClone(vfs.CrashOptions{KeepAll: true})
	i := mustInspect(t, fs)
	if _, err := inspect("mem", testOptions(fs).private); !errors.Is(err, ErrLocked) {
		t.Errorf("a second look: %v", err)
	}
	v := i.Store()
	if v.UUID != "01020300000000000000000000000000" || v.SegmentBytes != 256*kib || v.Namespaces != 1 || v.Segments != 2 || v.Sealed != 1 ||
		v.LiveBytes == 0 || v.SegmentDiskBytes == 0 || v.LogDiskBytes == 0 || v.IndexDiskBytes == 0 || len(v.Findings) != 0 || v.Rebuild != "" {
		t.Errorf("%+v", v)
	}
	n := i.Namespaces()
	if len(n) != 1 || n[0].Number != 1 || n[0].Tenant != "tenant" || n[0].Epoch != 1 || len(n[0].Layout.Planes) != 2 || len(n[0].Fingerprint) != 32 {
		t.Errorf("%+v", n)
	}
	st, problems, err := i.Index(context.Background())
	if err != nil || len(problems) != 0 || st.Keys != 7 || st.References != 9 || st.DiskBytes == 0 {
		t.Errorf("%+v, %v, %v", st, problems, err)
	}
	wantSameTree(t, before, fs)
}

func TestInspectSegments(t *testing.T) {
	fs := verifyStore(t)
	flipAt(t, fs, mustLocate(t, fs, 7).File, 50)
	v, err := mustInspect(t, fs).Segments(context.Background())
	if err != nil || len(v) != 2 {
		t.Fatalf("%+v, %v", v, err)
	}
	a, b := v[0], v[1]
	if !a.Sealed || a.Class != "fresh" || a.Extents != 6 || a.Aliases != 1 || a.Tombstones != 2 || a.Problem != "" {
		t.Errorf("%+v", a)
	}
	if a.DeadBytes != 5*4096-2*4096 || a.LiveBytes+a.DeadBytes+4096 != a.ExtentBytes { // 11 is dead; the alias is neither
		t.Errorf("%+v", a)
	}
	if b.Sealed || b.Extents != 3 || b.Aliases != 1 || b.Tombstones != 1 || !strings.Contains(b.Problem, "segment header") {
		t.Errorf("%+v", b)
	}
}

func TestInspectExtent(t *testing.T) {
	fs := verifyStore(t)
	l := mustLocate(t, fs, 4)
	alias := mustLocate(t, fs, 8)
	ctx := context.Background()
	i := mustInspect(t, fs)
	e, err := i.Extent(ctx, l.Segment, l.Page)
	if err != nil || !e.Verified || e.Hash != hexOf(4) || e.Kind != "full" || e.HeaderSum != l.HeaderSum || !strings.HasPrefix(e.ContentID, l.ContentID) ||
		e.RawBytes != 64<<10 || len(e.Planes) != 2 || e.Planes[1].Name != "v" || len(e.ChunkSums) != 2 || e.Sequence != l.Sequence || e.Offset != l.HeaderOffset {
		t.Errorf("%+v, %v", e, err)
	}
	e, err = i.Extent(ctx, alias.Segment, uint32(alias.AliasOffset/disk.PageBytes))
	if !errors.Is(err, ErrCorrupt) { // the alias is in the other segment
		t.Errorf("a page that is none: %+v, %v", e, err)
	}
	if _, err := i.Extent(ctx, 99, 1); !errors.Is(err, ErrInvalid) {
		t.Errorf("no such segment: %v", err)
	}
	flipAt(t, fs, l.File, l.PayloadOffset)
	if e, err = i.Extent(ctx, l.Segment, l.Page); err != nil || e.Verified || !strings.Contains(e.Problem, "chunk 0") {
		t.Errorf("%+v, %v", e, err)
	}
	if got, err := i.Locate(1, hashOf(8)); err != nil || *got != *alias {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestInspectLog(t *testing.T) {
	fs := verifyStore(t)
	i := mustInspect(t, fs)
	st, files := i.Log()
	if st.Files != 1 || len(files) != 1 || files[0].Records != st.Records || files[0].Torn != "" || files[0].Corrupt != "" {
		t.Errorf("%+v, %+v", st, files)
	}
	var kinds []string
	err := i.Records(func(r LogRecordView) error {
		kinds = append(kinds, r.Kind)
		if !r.Durable || !r.Applied || r.Namespace != 1 || r.Detail == "" || len(r.Hash) != 64 {
			t.Errorf("%+v", r)
		}
		return nil
	})
	if err != nil || strings.Join(kinds, " ") != "put put put drop drop" {
		t.Errorf("%v, %v", kinds, err)
	}
	var text strings.Builder
	if err := i.DumpLog(&text); err != nil || !strings.Contains(text.String(), "clean") {
		t.Errorf("%v: %s", err, text.String())
	}
	stop := errors.New("stop")
	if err := i.Records(func(LogRecordView) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("%v", err)
	}
}

// TestInspectWithoutIndex: what does not need the index is shown all the same.
func TestInspectWithoutIndex(t *testing.T) {
	fs := verifyStore(t)
	if err := fs.RemoveAll(indexDir); err != nil {
		t.Fatal(err)
	}
	i := mustInspect(t, fs)
	if v := i.Store(); v.Rebuild == "" || v.Segments != 2 {
		t.Errorf("%+v", v)
	}
	if st, _, err := i.Index(context.Background()); err != nil || st.Rebuild == "" || st.Keys != 0 {
		t.Errorf("%+v, %v", st, err)
	}
	if v, err := i.Segments(context.Background()); err != nil || v[0].Extents != 6 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := i.Locate(1, hashOf(1)); !errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err)
	}
}
