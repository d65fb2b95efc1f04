package index

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
	"go.uber.org/goleak"
)

// TestDamageIsRemembered: damage that was met while running is known to the
// next Open, which itself reads next to nothing.
func TestDamageIsRemembered(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		mem := vfs.NewMem()
		d := mustCreate(t, mem)
		setApplied(t, d, 10)
		mustClose(t, d)
		o := testOptions(mem)
		o.ReadOnly = readOnly
		d, err := Open(testContext(t), o)
		if err != nil {
			t.Fatal(err)
		}
		d.setDamaged("a table is bad")
		if err := d.Close(testContext(t)); !errors.Is(err, ErrFailed) {
			t.Errorf("close: %v", err)
		}
		// Pebble is left behind, open: its lock is not in the way.
		if c, err := Open(testContext(t), testOptions(mem)); !readOnly {
			if !errors.Is(err, ErrDamaged) {
				t.Errorf("open beside the failed one: %v", err)
			}
		} else if err != nil {
			t.Errorf("open beside the failed one: %v", err)
		} else {
			mustClose(t, c)
		}
		// After a power cut too.
		d, err = Open(testContext(t), testOptions(mem.CrashClone(vfs.CrashOptions{})))
		switch {
		case readOnly && err != nil:
			t.Errorf("a read-only index left a mark: %v", err)
		case readOnly:
			mustClose(t, d)
		case !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), DamageMark):
			t.Errorf("open after damage: %v", err)
		}
	}
}

// TestFailedIndexChangesNothing: what takes its place has the same names.
func TestFailedIndexChangesNothing(t *testing.T) {
	mem := vfs.NewMem()
	d := mustCreate(t, mem)
	p := pebbleFS{fs: mem, fail: &d.fail}
	x, err := p.Create("index/x", "")
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	d.fail.set("enough")
	_, writeErr := x.Write([]byte("x"))
	_, createErr := p.Create("index/y", "")
	_, reuseErr := p.ReuseForWrite("index/x", "index/y", "")
	_, rwErr := p.OpenReadWrite("index/x", "")
	for name, err := range map[string]error{
		"write": writeErr, "create": createErr, "reuse": reuseErr, "open for writing": rwErr,
		"link": p.Link("index/x", "index/y"), "rename": p.Rename("index/x", "index/y"),
		"remove": p.Remove("index/x"), "remove all": p.RemoveAll("index"), "mkdir": p.MkdirAll("index/z", 0),
	} {
		if !errors.Is(err, ErrFailed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f, err := p.Open("index/x"); err != nil {
		t.Errorf("reading: %v", err)
	} else if err := f.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(testContext(t)); !errors.Is(err, ErrFailed) {
		t.Errorf("close: %v", err)
	}
}

// TestLockedIndexIsNotDamaged: it is not rebuilt under the feet of its owner.
func TestLockedIndexIsNotDamaged(t *testing.T) {
	fs := vfs.NewMem()
	d := mustCreate(t, fs)
	defer mustClose(t, d)
	if _, err := Open(testContext(t), testOptions(fs)); err == nil || errors.Is(err, ErrDamaged) || !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("open of an index in use: %v", err)
	}
}

// TestMarkOfAClosingIndex: Pebble may report damage while the index closes. A
// mark that was begun is waited for, and none is begun behind it.
func TestMarkOfAClosingIndex(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	for range 200 {
		var m markWriter
		var wrote, closed atomic.Bool
		var reports sync.WaitGroup
		for range 3 {
			reports.Go(func() {
				m.write(func() {
					if closed.Load() || wrote.Swap(true) {
						t.Error("a mark behind the end, or a second one")
					}
				})
			})
		}
		m.close(testContext(t))
		closed.Store(true)
		reports.Wait()
		m.write(func() { t.Error("a mark of a closed index") })
		m.close(testContext(t))
	}
}

// TestMarkThatHangs: closing does not outlast its context.
func TestMarkThatHangs(t *testing.T) {
	var m markWriter
	let := make(chan struct{})
	m.write(func() { <-let })
	m.close(short(t))
	close(let)
	m.close(testContext(t))
}
