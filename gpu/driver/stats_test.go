package driver

import (
	"encoding/binary"
	"errors"
	"testing"

	"pgregory.net/rapid"
)

// statsOf lays out counters as a version does.
func statsOf(l statsLayout, gpus map[[16]byte]RouteCounters, order [][16]byte) []byte {
	b := make([]byte, statsRoom)
	binary.NativeEndian.PutUint32(b[l.count:], uint32(len(order)))
	for i, uuid := range order {
		e := b[l.gpus+i*statsGPUBytes:]
		c := gpus[uuid]
		copy(e, uuid[:])
		for at, v := range map[int]uint64{16: c.ReadBytes, 48: c.Reads, 56: c.P2PReads, 64: c.NvfsReads, 72: c.PosixReads, 80: c.Unaligned, 112: c.ReadErrors} {
			binary.NativeEndian.PutUint64(e[at:], v)
		}
	}
	return b
}

// TestStatsLayouts: each version's layout is read, and another version's is not
// taken for it.
func TestStatsLayouts(t *testing.T) {
	me := [16]byte{1, 2, 3}
	want := RouteCounters{ReadBytes: 7, Reads: 6, P2PReads: 5, NvfsReads: 4, PosixReads: 3, Unaligned: 2, ReadErrors: 1}
	old := statsOf(statsOld, map[[16]byte]RouteCounters{me: want}, [][16]byte{{9}, me})
	grown := statsOf(statsNew, map[[16]byte]RouteCounters{me: want}, [][16]byte{{9}, me})
	for _, c := range []struct {
		name    string
		b       []byte
		version int
		ok      bool
	}{
		{"13.0", old, 1150, true}, {"13.2", old, 1170, true}, {"13.4", grown, 1190, true}, {"newer", grown, 1200, true},
		{"between, old", old, 1180, true}, {"between, grown", grown, 1180, true},
		{"no counters yet", old, 1140, false}, {"no version function", old, versionOld, false},
		{"old version, grown layout", grown, 1150, false}, {"new version, old layout", old, 1190, false},
		{"empty", make([]byte, statsRoom), 1190, false}, {"cut", grown[:2000], 1190, false}, {"nothing", nil, 1190, false},
		{"twice", statsOf(statsNew, nil, [][16]byte{me, me}), 1190, false},
		{"too many GPUs", func() []byte {
			b := append([]byte{}, grown...)
			binary.NativeEndian.PutUint32(b[statsNew.count:], 17)
			return b
		}(), 1190, false},
	} {
		got, err := decodeStats(c.b, c.version, me)
		if c.ok && (err != nil || got != want) || !c.ok && (!errors.Is(err, ErrCounters) || got != RouteCounters{}) {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
	}
}

// TestStatsAnyGPU: whichever GPUs there are, each finds its own counters.
func TestStatsAnyGPU(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		gpus := map[[16]byte]RouteCounters{}
		var order [][16]byte
		for i := range rapid.IntRange(1, statsGPUs).Draw(t, "gpus") {
			uuid := [16]byte{byte(i + 1), byte(rapid.Byte().Draw(t, "byte"))}
			u := rapid.Uint64()
			gpus[uuid] = RouteCounters{ReadBytes: u.Draw(t, "bytes"), Reads: u.Draw(t, "reads"), P2PReads: u.Draw(t, "p2p"),
				NvfsReads: u.Draw(t, "nvfs"), PosixReads: u.Draw(t, "posix"), Unaligned: u.Draw(t, "unaligned"), ReadErrors: u.Draw(t, "errors")}
			order = append(order, uuid)
		}
		layout, version := statsOld, 1160
		if rapid.Bool().Draw(t, "new") {
			layout, version = statsNew, 1190
		}
		b := statsOf(layout, gpus, order)
		for _, uuid := range order {
			if got, err := decodeStats(b, version, uuid); err != nil || got != gpus[uuid] {
				t.Fatalf("%x: %+v, %v; want %+v", uuid, got, err, gpus[uuid])
			}
		}
	})
}

// FuzzStats: any bytes give counters of the GPU asked for, or ErrCounters.
func FuzzStats(f *testing.F) {
	me := [16]byte{1}
	f.Add(statsOf(statsOld, nil, [][16]byte{me}), 1150)
	f.Add(statsOf(statsNew, nil, [][16]byte{me}), 1190)
	f.Add(statsOf(statsNew, nil, [][16]byte{me}), 1180)
	f.Add([]byte{}, 1190)
	f.Fuzz(func(t *testing.T, b []byte, version int) {
		got, err := decodeStats(b, version, me)
		if err != nil && (!errors.Is(err, ErrCounters) || got != RouteCounters{}) {
			t.Fatalf("%+v, %v", got, err)
		}
	})
}

func TestDecodeProperties(t *testing.T) {
	b := make([]byte, propertiesBytes)
	for i, v := range map[int]uint32{0: 2, 4: 28, 24: 1 << StatusNVMe, 28: 1 << ControlCompat, 32: 9, 36: 36, 40: 40, 44: 44, 48: 128, 52: 5} {
		binary.NativeEndian.PutUint32(b[i:], v)
	}
	binary.NativeEndian.PutUint64(b[8:], 4)
	binary.NativeEndian.PutUint64(b[16:], 16384)
	want := Properties{2, 28, 4, 16384, 1 << StatusNVMe, 1 << ControlCompat, 9, 36, 40, 44, 128, 5}
	if got := decodeProperties(b); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
