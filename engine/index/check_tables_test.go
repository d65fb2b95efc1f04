package index

import (
	"errors"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
)

// TestFaultHiddenTable: a table whose every record is hidden by newer ones is
// read by no get and no scan. A check finds each flipped byte of it.
func TestFaultHiddenTable(t *testing.T) {
	mem := vfs.NewMem()
	d := mustCreate(t, mem)
	mustFill := func(applied uint64) {
		t.Helper()
		setApplied(t, d, applied)
		if err := d.Flush(testContext(t)); err != nil {
			t.Fatal(err)
		}
	}
	mustFill(10)
	mustFill(20)
	mustClose(t, d)
	o := testOptions(mem)
	o.ReadOnly = true
	d, err := Open(testContext(t), o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Check(testContext(t), oneTenant); err != nil {
		t.Fatalf("nothing is damaged: %v", err)
	}
	mustClose(t, d)
	names, err := mem.List("index")
	if err != nil {
		t.Fatal(err)
	}
	tally, tables := faulttest.New(t), 0
	for _, name := range names {
		if !strings.HasSuffix(name, ".sst") {
			continue
		}
		tables++
		info, err := mem.Stat("index/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for off := int64(0); off < info.SizeBytes; off += 7 {
			fault := tally.Try(name)
			if checkFlipped(t, mem.CrashClone(vfs.CrashOptions{KeepAll: true}), "index/"+name, off) {
				fault.Survive()
			} else {
				t.Errorf("byte %d of %s flipped, and nobody notices", off, name)
			}
			fault.Fire()
		}
	}
	if tables < 2 {
		t.Errorf("%d tables: none is hidden", tables)
	}
}

func oneTenant(uint32) uint32 { return 1 }

// checkFlipped reports whether a check, or Open, notices a flipped byte.
func checkFlipped(t *testing.T, mem *vfs.Mem, name string, off int64) bool {
	t.Helper()
	f, err := mem.Open(name, vfs.ReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var p [1]byte
	if _, err := f.ReadAt(p[:], off); err != nil {
		t.Fatal(err)
	}
	p[0] ^= 0x20
	if _, err := f.WriteAt(p[:], off); err != nil {
		t.Fatal(err)
	}
	o := testOptions(mem)
	o.ReadOnly = true
	d, err := Open(testContext(t), o)
	if err != nil {
		return errors.Is(err, ErrDamaged)
	}
	_, err = d.Check(testContext(t), oneTenant)
	_ = d.Close(testContext(t)) // of a failed index it fails
	return errors.Is(err, ErrFailed)
}
