package disk

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"sync/atomic"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// manyExtents is a segment of small extents with a large one among them.
func manyExtents(t *testing.T, v *Volume, count int) []FooterEntry {
	t.Helper()
	w := create(t, v, 1)
	var out []FooterEntry
	for i := range count {
		size := 100 + i
		if i == count/2 {
			size = 40000
		}
		out = append(out, mustPut(t, w, uint64(i+1), size))
	}
	must(t, w.Seal(w.Entries()))
	return out
}

// TestVerifierAnyOrder: forwards, backwards and at random it says what
// VerifyExtent and ReadExtent say.
func TestVerifierAnyOrder(t *testing.T) {
	v := openTestVolume(t, testOptions(vfs.NewMem()))
	entries := manyExtents(t, v, 20)
	r, err := v.NewVerifier(1)
	must(t, err)
	defer r.Close()
	rnd := rand.New(rand.NewPCG(1, 2))
	for step := range 400 {
		i := step % len(entries)
		if step > 40 {
			i = rnd.IntN(len(entries))
		} else if step > 20 {
			i = len(entries) - 1 - i
		}
		e := entries[i]
		at := Address{1, e.Page}
		want, _, err := v.ReadExtent(at)
		must(t, err)
		got, err := r.Header(at, e.HeaderSum)
		if step%3 > 0 {
			got, err = r.Verify(noDeadline, at, e.HeaderSum)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("step %d, extent %d: %+v, %v, want %+v", step, i, got, err, want)
		}
	}
}

func TestVerifierErrors(t *testing.T) {
	v := openTestVolume(t, testOptions(vfs.NewMem()))
	e := manyExtents(t, v, 3)[1]
	if _, err := v.NewVerifier(2); !errors.Is(err, ErrNoSegment) {
		t.Errorf("no segment: %v", err)
	}
	r, err := v.NewVerifier(1)
	must(t, err)
	at := Address{1, e.Page}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.Verify(ctx, at, e.HeaderSum); !errors.Is(err, context.Canceled) {
		t.Errorf("context: %v", err)
	}
	for name, c := range map[string]struct {
		at  Address
		sum uint64
	}{"another sum": {at, e.HeaderSum + 1}, "another place": {Address{1, 1}, e.HeaderSum}, "behind the end": {Address{1, 1 << 20}, e.HeaderSum}} {
		if _, err := r.Verify(noDeadline, c.at, c.sum); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: verify: %v", name, err)
		}
		if _, err := r.Header(c.at, c.sum); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: header: %v", name, err)
		}
	}
	if _, err := r.Verify(noDeadline, at, e.HeaderSum); err != nil {
		t.Errorf("after the errors: %v", err)
	}
	r.Close()
}

// TestVerifierReadsTogether: small extents side by side cost few reads, one
// far away no more than its own bytes.
func TestVerifierReadsTogether(t *testing.T) {
	var reads, bytes atomic.Int64
	fs := vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
		if op.Kind == vfs.OpRead {
			reads.Add(1)
			bytes.Add(int64(op.Length))
		}
		return nil
	})
	v := openTestVolume(t, testOptions(fs))
	entries := manyExtents(t, v, 40)
	r, err := v.NewVerifier(1)
	must(t, err)
	defer r.Close()
	reads.Store(0)
	for _, e := range entries {
		_, err := r.Verify(noDeadline, Address{1, e.Page}, e.HeaderSum)
		must(t, err)
	}
	if n := reads.Load(); n > 4 {
		t.Errorf("%d extents side by side took %d reads", len(entries), n)
	}
	bytes.Store(0)
	_, err = r.Header(Address{1, entries[0].Page}, entries[0].HeaderSum)
	must(t, err)
	if n := bytes.Load(); n > PageBytes {
		t.Errorf("one header took %d bytes", n)
	}
}
