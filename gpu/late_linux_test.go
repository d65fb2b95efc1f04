package gpu

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/sealstone/sealstone/gpu/driver"
)

// TestLateWriteAfterCheck: a storage device writes to landing memory once more
// when the bytes there were copied and found good, and before they are copied to
// the caller. It must not matter.
func TestLateWriteAfterCheck(t *testing.T) {
	r := newRig(t, nil)
	files := &fakeFiles{g: r.g}
	r.d.files.load = func() (fileLibrary, error) { return files, nil }
	dir := directDir(t)
	data := random(1, 3*4096)
	name := filepath.Join(dir, "segment")
	if err := os.WriteFile(name, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		t.Fatal(err)
	}
	dst := r.span(int64(len(data)))
	its := []DirectRead{{FD: int(f.Fd()), File: FileID{Dev: uint64(st.Dev), Ino: st.Ino}, LengthBytes: int64(len(data)),
		Checks: checksOf(data), Moves: []Move{{0, dst}}}}
	copies := 0
	r.g.before = func(call string, _ int) error {
		if call != "d2d" {
			return nil
		}
		if copies++; copies == 2 { // the first one took the bytes out
			r.g.mu.Lock()
			for base, n := range r.g.registered {
				fill(r.g.at(base, n), 0x66)
			}
			r.g.mu.Unlock()
		}
		return nil
	}
	route := r.d.AllowDirect(dir, Verdict{State: VerdictProven, Key: VerdictKey{GPU: r.d.UUID()}})
	r.d.ReadDirect(t.Context(), route, its)
	if its[0].Err != nil || copies != 2 || !bytes.Equal(r.g.bytes(dst), data) {
		t.Errorf("%v after %d copies, or wrong bytes", its[0].Err, copies)
	}
	r.g.before = nil
	r.close()
}

// TestCopyInModel compares copies of random pieces to random places with copies
// of a slice.
func TestCopyInModel(t *testing.T) {
	r := newRig(t, nil)
	defer r.close()
	const room = 1 << 15
	memory := r.span(room)
	model := slices.Repeat([]byte{0xdd}, room)
	seed := uint64(0)
	rapid.Check(t, func(rt *rapid.T) {
		blocks := rapid.IntRange(1, 5).Draw(rt, "blocks")
		at := int64(0) // destinations lie behind each other, so that none overlap
		var its []CopyIn
		var pins []*Pinned
		for range blocks {
			length := rapid.IntRange(1, 20_000).Draw(rt, "length")
			seed++
			pin := r.pin(random(seed, length))
			pins = append(pins, pin)
			it := CopyIn{Src: pin.Bytes()}
			for range rapid.IntRange(0, 6).Draw(rt, "moves") {
				off := rapid.IntRange(0, length-1).Draw(rt, "off")
				n := int64(rapid.IntRange(1, min(length-off, 1000)).Draw(rt, "n"))
				at += int64(rapid.IntRange(0, 3).Draw(rt, "gap"))
				it.Moves = append(it.Moves, Move{int64(off), Span{memory.Ptr + driver.DevicePtr(at), n}})
				copy(model[at:at+n], it.Src[off:])
				at += n
			}
			its = append(its, it)
		}
		r.d.CopyIn(t.Context(), its)
		for i := range its {
			if its[i].Err != nil {
				rt.Errorf("block %d: %v", i, its[i].Err)
			}
			pins[i].Free()
		}
		if !bytes.Equal(r.g.bytes(memory), model) || !r.guarded(memory) {
			rt.Fatal("device memory is not what was copied")
		}
	})
}
