package disk

import (
	"errors"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/internal/aligned"
	"github.com/sealstone/sealstone/internal/vfs"
)

func TestVolumeOptions(t *testing.T) {
	for name, change := range map[string]func(*VolumeOptions){
		"no file system":    func(o *VolumeOptions) { o.FS = nil },
		"no segment size":   func(o *VolumeOptions) { o.SegmentBytes = 0 },
		"too small":         func(o *VolumeOptions) { o.SegmentBytes = 3 * PageBytes },
		"half a page":       func(o *VolumeOptions) { o.SegmentBytes += 2048 },
		"too large":         func(o *VolumeOptions) { o.SegmentBytes = MaxSegmentBytes + PageBytes },
		"block too large":   func(o *VolumeOptions) { o.MaxBlockBytes = o.SegmentBytes },
		"negative block":    func(o *VolumeOptions) { o.MaxBlockBytes = -1 },
		"too few files":     func(o *VolumeOptions) { o.MaxOpenFiles = MinOpenFiles - 1 },
		"a negative number": func(o *VolumeOptions) { o.MaxOpenFiles = -1 },
	} {
		o := testOptions(vfs.NewMem())
		change(&o)
		if _, err := OpenVolume(o); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: %v, want %v", name, err, ErrInvalid)
		}
	}
}

// TestProbe: direct I/O is used where it gave the right bytes, and each
// refusal has its reason.
func TestProbe(t *testing.T) {
	refusing := vfs.NewMem()
	refusing.SetDirectRefused(true)
	lying := vfs.WithReadFilter(vfs.NewMem(), func(name string, off int64, p []byte) {
		if name == scratchName(0) {
			p[len(p)-1] ^= 1
		}
	})
	full := vfs.NewMem()
	full.SetCapacityBytes(PageBytes)
	never := testOptions(vfs.NewMem())
	never.Direct = DirectNever
	small := testOptions(vfs.NewMem())
	small.Pool = aligned.NewPool(PageBytes)
	readOnly := testOptions(vfs.NewMem())
	readOnly.ReadOnly = true
	for _, tc := range []struct {
		name string
		o    VolumeOptions
		want string // part of the reason; empty: it is used
	}{
		{"mem", testOptions(vfs.NewMem()), ""},
		{"refusing", testOptions(refusing), "direct I/O not supported"},
		{"lying", testOptions(lying), "other bytes"},
		{"full", testOptions(full), "no space"},
		{"never", never, "switched off"},
		{"no buffers", small, ""},
		{"read-only and empty", readOnly, "no segment to probe"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := openTestVolume(t, tc.o)
			got := v.DirectRefusal()
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("reason %q, want %q", got, tc.want)
			}
			if _, err := tc.o.FS.Stat(scratchName(0)); !vfs.IsNotExist(err) {
				t.Errorf("the probe's file is still there: %v", err)
			}
			if tc.o.ReadOnly || tc.name == "full" {
				return
			}
			w := create(t, v, 1)
			e := mustPut(t, w, 1, 5000)
			must(t, w.Close())
			h, err := v.Acquire(1)
			must(t, err)
			defer h.Release()
			if (h.File(true) != nil) != (tc.want == "") || h.File(false) == nil || h.ID() != 1 {
				t.Errorf("handle: direct file %v", h.File(true))
			}
			if tc.name != "no buffers" {
				must(t, v.VerifyExtent(noDeadline, Address{1, e.Page}, e.HeaderSum))
			}
		})
	}
}

// TestProbeReadOnly probes with a segment that is there.
func TestProbeReadOnly(t *testing.T) {
	eachFS(t, func(t *testing.T, fs vfs.FS) {
		v := openTestVolume(t, testOptions(fs))
		must(t, create(t, v, 1).Close())
		o := testOptions(fs)
		o.ReadOnly = true
		ro := openTestVolume(t, o)
		if v.DirectRefusal() == "" && ro.DirectRefusal() != "" {
			t.Errorf("read-only: %s", ro.DirectRefusal())
		}
	})
}

// TestUnlinkOrder: segment, directory sync, sidecar.
func TestUnlinkOrder(t *testing.T) {
	var ops []string
	fs := vfs.WithHook(vfs.NewMem(), func(op vfs.Op) error {
		if op.Mutates() {
			ops = append(ops, op.Kind.String()+" "+op.Name)
		}
		return nil
	})
	v := openTestVolume(t, testOptions(fs))
	must(t, create(t, v, 1).Close())
	ops = nil
	must(t, v.Unlink(1))
	want := []string{"remove " + SegmentName(1), "syncdir " + segmentDir(1), "remove " + SidecarName(1)}
	if strings.Join(ops, ", ") != strings.Join(want, ", ") {
		t.Errorf("did %q, want %q", ops, want)
	}
	must(t, v.Unlink(1))
	must(t, v.Unlink(0xabc)) // of a directory that never was
}

// TestNames: the names of segments, and what is none.
func TestNames(t *testing.T) {
	for _, id := range []uint64{0, 1, 0xff, 0x100, 1<<64 - 1} {
		for _, sidecar := range []bool{false, true} {
			name := SegmentName(id)
			if sidecar {
				name = SidecarName(id)
			}
			parts := strings.Split(name, "/")
			got, side, ok := parseName(parts[1], parts[2])
			if got != id || side != sidecar || !ok || !isDirName(parts[1]) {
				t.Errorf("%s: %x, %v, %v", name, got, side, ok)
			}
		}
	}
	for _, bad := range []string{
		"0000000000000001", "0000000000000001.tmp", "1.seg", "000000000000001g.seg", ".seg", "0000000000000002.seg",
		"00000000000000000001.seg", "+000000000000001.seg", "0000000000000001.SEG", "0000000000000001.seg.del",
	} {
		if _, _, ok := parseName("01", bad); ok {
			t.Errorf("%s is taken for a segment", bad)
		}
	}
	for _, bad := range []string{"", "1", "0G", "FF", "100", "+1"} {
		if isDirName(bad) {
			t.Errorf("%s is taken for a directory of segments", bad)
		}
	}
}
