package index

import (
	"errors"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/internal/vfs"
)

// TestVersion: an index of an older version is to be rebuilt, one of a newer
// version is refused and left as it is.
func TestVersion(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	uuid := testUUID[:]
	for name, c := range map[string]struct {
		mark []byte
		want error // nil: opens
	}{
		"this":              {slices.Concat(uuid, []byte{recordVersion}), nil},
		"the first":         {uuid, ErrIncomplete},
		"without uses":      {slices.Concat(uuid, []byte{countlessVersion}), nil},
		"before that":       {slices.Concat(uuid, []byte{countlessVersion - 1}), ErrIncomplete},
		"one more":          {slices.Concat(uuid, []byte{recordVersion + 1}), ErrNewer},
		"one more, longer":  {slices.Concat(uuid, []byte{recordVersion + 1, 1, 2, 3}), ErrNewer},
		"no version at all": {uuid[:15], ErrIncomplete},
		"another store's":   {append(make([]byte, 16), recordVersion), ErrIncomplete},
	} {
		fs := vfs.NewMem()
		d := mustCreate(t, fs)
		if err := d.db.Set(metaComplete, c.mark, pebble.NoSync); err != nil {
			t.Fatal(err)
		}
		mustClose(t, d)
		d, err := Open(testContext(t), testOptions(fs))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
		if err == nil {
			mustClose(t, d)
		}
	}
}
