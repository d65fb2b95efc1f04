package killloop

import (
	"fmt"

	"github.com/sealstone/sealstone/engine"
	"github.com/sealstone/sealstone/engine/layout"
	"github.com/sealstone/sealstone/tools/internal/blockgen"
)

const (
	// keys is small, so that every key is put, dropped and put again often;
	// each belongs to one worker, so that its history is a sequence.
	keys    = 96
	workers = 4
	// opsPerLife bounds what a child does that nobody kills: then it closes.
	opsPerLife = 400

	capacityBytes = 128 << 20
	segmentBytes  = 1 << 20
	blockMax      = 48 << 10
	blockMin      = 16 // holds the version
	tenant        = "killloop"
	scope         = "killloop"
)

// Config is what a child is told on its standard input.
type Config struct {
	Dir  string
	Path engine.PathChoice
	Seed uint64
	// Evict lets the child evict segments and swap epochs. Without it every
	// acknowledged block must be found.
	Evict bool
	// FirstVersion is above all versions of the lives before, so that the
	// bytes of no two puts are equal.
	FirstVersion uint64
	// Ops is how many operations each worker does before the child closes.
	Ops int
}

func (c Config) options() engine.Options {
	return engine.Options{
		CapacityBytes: capacityBytes, SegmentBytes: segmentBytes, FreeFloorBytes: 1,
		MaxBlockBytes: 64 << 10, MaxInflightBytes: 16 << 20, IndexCacheBytes: 4 << 20, HintBytes: 1 << 20,
		MaxOpenFiles: 32, ReadWorkers: 4, Path: c.Path, NoSharing: true,
	}
}

func blockLayout() layout.Layout {
	l := layout.Opaque("killloop")
	l.Planes = []layout.Plane{{Name: "kv"}}
	return l
}

func hashOf(key uint32) []byte {
	h := blockgen.Ref{Scope: scope, ID: uint64(key)}.Hash()
	return h[:]
}

// sizeOf is the length of every version of a key's block: some of a few bytes,
// some of a page, most of several pages and a rest.
func sizeOf(key uint32) int {
	switch key % 8 {
	case 0:
		return blockMin + int(key)
	case 1:
		return 4096
	}
	return blockMin + int(key)*7919%(blockMax-blockMin)
}

// numberedBytes are the bytes of a version of a key's block: its number, and
// what follows from key and number.
func numberedBytes(key uint32, version uint64) []byte {
	p := make([]byte, sizeOf(key))
	generator.Fill(p, blockgen.Ref{Scope: scope, ID: uint64(key)<<32 | version})
	putVersion(p, version)
	return p
}

var generator = blockgen.New(3)

// versionOf tells which version of the key's block p is, byte for byte.
func versionOf(key uint32, p []byte) (uint64, error) {
	v := getVersion(p)
	if v>>32 != 0 || v == 0 {
		return 0, fmt.Errorf("killloop: key %d: the bytes name version %d, which cannot be", key, v)
	}
	want := numberedBytes(key, v)
	wrong := 0
	for i := range want {
		if want[i] != p[i] {
			wrong++
		}
	}
	if wrong > 0 {
		return 0, fmt.Errorf("killloop: key %d: %d of %d bytes are not those of version %d", key, wrong, len(p), v)
	}
	return v, nil
}
