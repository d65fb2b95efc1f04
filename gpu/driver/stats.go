package driver

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// ErrCounters says that the counters of routes cannot be trusted: the library's
// version has none, or its layout is not the one known.
var ErrCounters = errors.New("driver: no counters of routes")

// versionOld is what stands for versions that have no cuFileGetVersion.
const versionOld = 1070

// RouteCounters say by which way cuFile read for one GPU, since its statistics
// were started. They are the library's own word.
type RouteCounters struct {
	ReadBytes  uint64
	Reads      uint64
	P2PReads   uint64 // PCIe peer to peer without nvidia-fs
	NvfsReads  uint64 // through nvidia-fs
	PosixReads uint64 // read by the CPU and copied: not direct
	Unaligned  uint64
	ReadErrors uint64
}

// Layouts of CUfileStatsLevel3_t. The structure before the GPUs grew between
// CUDA 13.2 and 13.4 under the same function name, so the version chooses and
// the content must then fit.
const (
	statsRoom     = 16 << 10
	statsGPUBytes = 248
	statsGPUs     = 16 // entries of the array
)

type statsLayout struct{ count, gpus int } // offsets of num_gpus and per_gpu_stats

var (
	statsOld = statsLayout{1024, 1032} // CUDA 13.0 to 13.2, cuFile 1.15 to 1.17
	statsNew = statsLayout{1136, 1144} // CUDA 13.4, cuFile 1.19
)

// statsLayouts returns the layouts that a version may have.
func statsLayouts(version int) []statsLayout {
	switch {
	case version < 1150:
		return nil
	case version < 1180:
		return []statsLayout{statsOld}
	case version < 1190:
		return []statsLayout{statsOld, statsNew}
	}
	return []statsLayout{statsNew}
}

// decodeStats finds the counters of one GPU in what cuFileGetStatsL3 filled in.
func decodeStats(b []byte, version int, uuid [16]byte) (RouteCounters, error) {
	layouts := statsLayouts(version)
	if layouts == nil {
		return RouteCounters{}, fmt.Errorf("%w: cuFile %d.%d has none (1.15 and newer do)", ErrCounters, version/1000, version%1000/10)
	}
	var found []RouteCounters
	for _, l := range layouts {
		if c, ok := l.find(b, uuid); ok {
			found = append(found, c)
		}
	}
	if len(found) != 1 {
		return RouteCounters{}, fmt.Errorf("%w: %d known layouts of cuFile %d.%d hold the GPU, want one", ErrCounters, len(found), version/1000, version%1000/10)
	}
	return found[0], nil
}

// find looks for the GPU among the entries in use. It must be there once.
func (l statsLayout) find(b []byte, uuid [16]byte) (c RouteCounters, ok bool) {
	if len(b) < l.gpus+statsGPUs*statsGPUBytes {
		return c, false
	}
	n := binary.NativeEndian.Uint32(b[l.count:])
	if n == 0 || n > statsGPUs {
		return c, false
	}
	for i := range int(n) {
		e := b[l.gpus+i*statsGPUBytes:][:statsGPUBytes]
		if [16]byte(e[:16]) != uuid {
			continue
		}
		if ok {
			return RouteCounters{}, false
		}
		u64 := func(at int) uint64 { return binary.NativeEndian.Uint64(e[at:]) }
		c, ok = RouteCounters{ReadBytes: u64(16), Reads: u64(48), P2PReads: u64(56), NvfsReads: u64(64),
			PosixReads: u64(72), Unaligned: u64(80), ReadErrors: u64(112)}, true
	}
	return c, ok
}
