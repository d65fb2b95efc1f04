package engine

import (
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
)

// TestFaultMediaFlipIndex, field case 35: whichever byte of whichever file of
// the index is damaged, the process lives, no byte comes out wrong, and the
// index is rebuilt: by that Open, or by the next if only a get met it.
func TestFaultMediaFlipIndex(t *testing.T) {
	m := newMediaStore(t)
	flip := &mediaFault{"bit", otherBytes, 1, editing(func(p []byte, at place) { p[0] ^= flipMask(at.from) })}
	for _, file := range filesUnder(t, m.fs, indexDir, "") {
		size := int64(len(readWhole(t, m.fs, file)))
		step := max(size/8, 1)
		if fullTests {
			step = 1
			if m.unused[file] || artifactOf(file) == artifactIndexOther {
				step = 7 // OPTIONS is text that Pebble hardly looks at
			}
		} else if testing.Short() {
			step = max(size, 1)
		}
		t.Run(path.Base(file), func(t *testing.T) {
			t.Parallel()
			tally := faulttest.New(t)
			seen := map[string]int{}
			for off := int64(0); off < size; off += step {
				at := off + (off/step)%min(step, size-off) // not the same byte of each word
				if got, ok := (&mediaCase{m: m, fault: flip, at: place{file, at, at + 1}}).run(t, tally); ok {
					seen[got.String()]++
				}
			}
			t.Log(seen)
		})
	}
}

// TestFaultMediaIndexKept: a device that fails, or is full, while the index is
// opened is no reason to throw the index away: Open says so, and once the
// device works the index is as it was.
func TestFaultMediaIndexKept(t *testing.T) {
	m := newMediaStore(t)
	tally := faulttest.New(t)
	// A flush that fails is tried a few times, so what is written costs seconds.
	parts := []string{"MANIFEST-"}
	if fullTests {
		parts = append(parts, "", ".sst", "OPTIONS-", "marker")
	}
	for _, kind := range []vfs.OpKind{vfs.OpCreate, vfs.OpWrite, vfs.OpSync, vfs.OpRename, vfs.OpRemove, vfs.OpSyncDir, vfs.OpOpen, vfs.OpRead, vfs.OpList, vfs.OpStat} {
		for _, part := range parts {
			m.keepIndex(t, tally, kind, syscall.EIO, part)
			if fullTests && writes(kind) {
				m.keepIndex(t, tally, kind, syscall.ENOSPC, part)
			}
		}
	}
	tally.Settle()
}

func writes(kind vfs.OpKind) bool {
	return kind == vfs.OpCreate || kind == vfs.OpWrite || kind == vfs.OpSync || kind == vfs.OpRename || kind == vfs.OpSyncDir
}

func (m *mediaStore) keepIndex(t *testing.T, tally *faulttest.Tally, kind vfs.OpKind, errno syscall.Errno, part string) {
	t.Helper()
	name := fmt.Sprintf("%v of index/%s: %v", kind, part, errno)
	mem := m.clone()
	var fired atomic.Bool
	vd := m.examineMedia(vfs.WithHook(mem, func(op vfs.Op) error {
		if op.Kind != kind || op.Name != indexDir && path.Dir(op.Name) != indexDir || !strings.Contains(op.Name, part) {
			return nil
		}
		fired.Store(true)
		return &fs.PathError{Op: op.Kind.String(), Path: op.Name, Err: errno}
	}))
	if !fired.Load() {
		return
	}
	fault := tally.Try(name)
	fault.Fire()
	wrong := vd.wrong
	for _, said := range vd.reported {
		if strings.HasPrefix(said, EventRebuild.String()+": ") {
			wrong = append(wrong, said)
		}
	}
	s, err := Open("mem", victimOptions(mem))
	if err != nil {
		t.Fatalf("%s: the next open: %v", name, err)
	}
	next := &verdict{status: map[int]Status{}}
	m.readAll(s, next)
	wrong = append(wrong, next.wrong...)
	if s.rebuilds > 0 || len(next.lost()) > 0 {
		wrong = append(wrong, fmt.Sprintf("at the next open %d rebuilds, blocks %v lost", s.rebuilds, next.lost()))
	}
	mustClose(t, s)
	tally.WrongBytes(vd.wrongBytes + next.wrongBytes)
	if len(wrong) > 0 {
		t.Errorf("%s: %q; reported %q", name, wrong, vd.reported)
		return
	}
	fault.Survive()
}
