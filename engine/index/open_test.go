package index

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/goleak"

	"github.com/sealstone/sealstone/internal/vfs"
)

func TestOpenAbsent(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	if _, err := Open(testContext(t), testOptions(vfs.NewMem())); !errors.Is(err, ErrIncomplete) {
		t.Fatalf("open of nothing: %v", err)
	}
}

// TestIncomplete: a rebuild that was cut short is no index (rule rebatomic).
func TestIncomplete(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	fs := vfs.NewMem()
	d, err := Create(testContext(t), testOptions(fs))
	if err != nil {
		t.Fatal(err)
	}
	setApplied(t, d, 10)
	if err := d.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	cut := fs.CrashClone(vfs.CrashOptions{KeepAll: true})
	if _, err := Open(testContext(t), testOptions(cut)); !errors.Is(err, ErrIncomplete) {
		t.Fatalf("open of an index without its mark: %v", err)
	}
	if err := d.MarkComplete(testContext(t)); err != nil {
		t.Fatal(err)
	}
	whole := fs.CrashClone(vfs.CrashOptions{})
	c := mustOpen(t, whole)
	wantApplied(t, c, 10, 10)
	mustClose(t, c)
	mustClose(t, d)
}

// TestOtherStoresIndex: the mark names the store.
func TestOtherStoresIndex(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	fs := vfs.NewMem()
	mustClose(t, mustCreate(t, fs))
	o := testOptions(fs)
	o.UUID[0]++
	if _, err := Open(testContext(t), o); !errors.Is(err, ErrIncomplete) {
		t.Fatalf("open of another store's index: %v", err)
	}
}

func TestUseAfterClose(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	d := mustCreate(t, vfs.NewMem())
	mustClose(t, d)
	mustClose(t, d) // a second time is no error
	if _, err := d.Get(testContext(t), []Key{keyOf(1)}, false); !errors.Is(err, ErrClosed) {
		t.Errorf("get: %v", err)
	}
	if err := d.Update(testContext(t), nil, func(*Batch) error { return nil }); !errors.Is(err, ErrClosed) {
		t.Errorf("update: %v", err)
	}
	if err := d.Flush(testContext(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("flush: %v", err)
	}
	if s := d.Stats(testContext(t)); s.DiskBytes != 0 {
		t.Errorf("stats of a closed index: %+v", s)
	}
}

func TestReadOnly(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	fs := vfs.NewMem()
	d := mustCreate(t, fs)
	setApplied(t, d, 10)
	mustClose(t, d)
	var mu sync.Mutex
	var writes []string
	o := testOptions(vfs.WithHook(fs, func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if op.Mutates() && op.Kind != vfs.OpLock {
			writes = append(writes, op.String())
		}
		return nil
	}))
	o.ReadOnly = true
	d, err := Open(testContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := lookup(t, d, keyOf(10)); !ok {
		t.Error("the key is not there")
	}
	mustClose(t, d)
	if len(writes) > 0 {
		t.Errorf("a read-only index wrote: %q", writes)
	}
}

// TestFileGone: a table or manifest that is missing is damage, not an error
// that stops the store.
func TestFileGone(t *testing.T) {
	fs := vfs.NewMem()
	d := mustCreate(t, fs)
	for lsn := uint64(10); lsn < 200; lsn += 10 {
		setApplied(t, d, lsn)
	}
	mustClose(t, d)
	names, err := fs.List("index")
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") && !strings.HasPrefix(name, "MANIFEST") {
			continue
		}
		tried++
		clone := fs.CrashClone(vfs.CrashOptions{KeepAll: true})
		if err := clone.Remove("index/" + name); err != nil {
			t.Fatal(err)
		}
		d, err := Open(testContext(t), testOptions(clone))
		if err != nil {
			if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrIncomplete) {
				t.Errorf("without %s: %v", name, err)
			}
			continue
		}
		if _, err := d.Get(testContext(t), []Key{keyOf(10)}, false); err == nil {
			t.Errorf("without %s the key is found", name)
		}
		_ = d.Close(testContext(t))
	}
	if tried < 2 {
		t.Fatalf("nothing to remove among %v", names)
	}
}

// TestBadRecord: a record that does not decode fails the index; no answer is
// made up.
func TestBadRecord(t *testing.T) {
	for _, c := range []struct {
		name       string
		key, value []byte
		ask        func(d *DB) error
	}{
		{"entry", appendKey(nil, keyOf(1)), []byte{1, 2, 3}, func(d *DB) error {
			_, err := d.Get(testContext(t), []Key{keyOf(1)}, false)
			return err
		}},
		{"key", []byte{kindKey, 1}, nil, func(d *DB) error { return d.Keys(testContext(t), func(KeyEntry) error { return nil }) }},
		{"reference to nobody", appendRef(nil, extentAt(4, 1, 1).Address, tagOf(appendKey(nil, keyOf(9)))), nil, func(d *DB) error {
			_, err := d.SegmentKeys(testContext(t), 4)
			return err
		}},
		{"content", contentKey(1, contentOf(1)), []byte{9, 0x80}, func(d *DB) error {
			_, _, err := d.Content(testContext(t), 1, contentOf(1))
			return err
		}},
		{"live bytes", segmentPrefix(kindSegment, 3), []byte{1}, func(d *DB) error {
			_, err := d.Live(testContext(t))
			return err
		}},
		{"applied", metaApplied, []byte{1}, func(d *DB) error {
			_, err := d.Applied(testContext(t))
			return err
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			var told []string
			fs := vfs.NewMem()
			o := testOptions(fs)
			o.OnFail = func(reason string) { told = append(told, reason) }
			d, err := Create(testContext(t), o)
			if err != nil {
				t.Fatal(err)
			}
			if err := d.db.Set(c.key, c.value, pebble.NoSync); err != nil {
				t.Fatal(err)
			}
			if err := c.ask(d); !errors.Is(err, ErrFailed) {
				t.Errorf("answer: %v", err)
			}
			if err := d.Err(); !errors.Is(err, ErrFailed) || len(told) != 1 {
				t.Errorf("failed: %v, told %q", err, told)
			}
			if _, err := d.Get(testContext(t), []Key{keyOf(5)}, false); !errors.Is(err, ErrFailed) {
				t.Errorf("a failed index answers: %v", err)
			}
			_ = d.db.Close()
			_ = d.Close(testContext(t))
		})
	}
}

func TestStats(t *testing.T) {
	d := mustCreate(t, vfs.NewMem())
	defer mustClose(t, d)
	for lsn := uint64(1); lsn < 100; lsn++ {
		setApplied(t, d, lsn)
	}
	if err := d.Flush(testContext(t)); err != nil {
		t.Fatal(err)
	}
	s := d.Stats(testContext(t))
	if s.DiskBytes == 0 || s.WrittenBytes == 0 || s.BackgroundErrors != 0 {
		t.Errorf("%+v", s)
	}
	if d.Stalled() || d.Trouble() != nil || d.Err() != nil {
		t.Errorf("stalled %v, trouble %v, err %v", d.Stalled(), d.Trouble(), d.Err())
	}
}
