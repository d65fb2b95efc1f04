package disk

import (
	"errors"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestSyncOld: what a killed process left in memory only is on disk once
// SyncOld has answered, bytes and name.
func TestSyncOld(t *testing.T) {
	data, sidecar := segmentOf(t, testOptions, false)
	mem := memWith(t, data, sidecar)
	v := openTestVolume(t, testOptions(mem))
	if _, err := mem.CrashClone(vfs.CrashOptions{}).Stat(SegmentName(1)); !vfs.IsNotExist(err) {
		t.Fatalf("the segment is durable already: %v", err)
	}
	must(t, v.SyncOld(1))
	after := openTestVolume(t, testOptions(mem.CrashClone(vfs.CrashOptions{})))
	found, err := scanAll(after, 1)
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("%d extents after the power cut", len(found))
	}
	must(t, after.VerifyExtent(noDeadline, Address{1, found[0].Page}, found[0].HeaderSum))
	must(t, v.SyncOld(1)) // again, and then sealed: nothing is in its way
	must(t, v.SealOld(1, found))
}

// TestSyncOldRefused: it is for unsealed segments of earlier runs.
func TestSyncOldRefused(t *testing.T) {
	mem := vfs.NewMem()
	v := openTestVolume(t, testOptions(mem))
	open := create(t, v, 1)
	defer func() { must(t, open.Close()) }()
	w := create(t, v, 2)
	must(t, w.Seal(nil))
	must(t, create(t, v, 3).Close())
	readOnly := testOptions(mem)
	readOnly.ReadOnly = true
	for _, tc := range []struct {
		name string
		v    *Volume
		id   uint64
		want error
	}{
		{"open writer", v, 1, ErrInvalid},
		{"sealed", v, 2, ErrInvalid},
		{"absent", v, 4, ErrNoSegment},
		{"read-only", openTestVolume(t, readOnly), 3, ErrReadOnly},
		{"as it should be", v, 3, nil},
	} {
		if err := tc.v.SyncOld(tc.id); !errors.Is(err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, err, tc.want)
		}
	}
}

// TestSyncOldFails: a sync that fails, of the file or of a directory, is told.
func TestSyncOldFails(t *testing.T) {
	data, sidecar := segmentOf(t, testOptions, false)
	for _, name := range []string{SegmentName(1), segmentDir(1), segmentsDir} {
		fail := false
		v := openTestVolume(t, testOptions(vfs.WithHook(memWith(t, data, sidecar), func(op vfs.Op) error {
			if fail && op.Name == name && (op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncDir) {
				return syscall.EIO
			}
			return nil
		})))
		fail = true
		if err := v.SyncOld(1); !errors.Is(err, syscall.EIO) {
			t.Errorf("sync of %s fails: %v", name, err)
		}
	}
}
