package main

import (
	"hash/maphash"
	"math/rand/v2"
	"path/filepath"

	"github.com/sealstone/sealstone/tools/internal/cputime"
	"github.com/sealstone/sealstone/tools/internal/trace"
)

// scanScope is that of blocks that are asked for once.
const scanScope = "scan"

// workload is a trace as accesses.
type workload struct {
	name     string
	accesses []access
	// footprintBytes are those of all distinct blocks, scanned ones left out.
	footprintBytes int64
	// bytes and count are those of what may hit: scans left out.
	bytes, count int64
}

// load reads a trace. scanPart of the references it has come on top, of blocks
// that never come back, in runs as a long prompt has them.
func load(path string, mixed bool, scanPart float64) (*workload, error) {
	t, err := trace.Read(path)
	if err != nil {
		return nil, err
	}
	w := &workload{name: filepath.Base(path)}
	seed := maphash.MakeSeed()
	seen := map[key]bool{}
	rng := rand.New(rand.NewPCG(1, 2))
	scanned, owed := uint64(0), 0.0
	for _, r := range t.Requests {
		for _, id := range r.IDs {
			a := access{key: key{r.Scope, id}, sizeBytes: sizeOf(id, mixed)}
			a.fingerprint = maphash.Comparable(seed, a.key)
			w.accesses = append(w.accesses, a)
			w.count, w.bytes = w.count+1, w.bytes+a.sizeBytes
			if !seen[a.key] {
				seen[a.key] = true
				w.footprintBytes += a.sizeBytes
			}
		}
		owed += scanPart * float64(len(r.IDs))
		for run := scanRun * (1 + rng.IntN(scanRun)); owed > scanRun*scanRun && run > 0; run-- {
			a := access{key: key{scanScope, scanned}, sizeBytes: sizeOf(scanned, mixed), scan: true}
			a.fingerprint = maphash.Comparable(seed, a.key)
			w.accesses = append(w.accesses, a)
			scanned++
			owed--
		}
	}
	return w, nil
}

// scanRun is the least length of a scan; the most is its square.
const scanRun = 16

// sizeOf is the size of a block: 1 MiB, or mixed one of seven powers of two
// around it.
func sizeOf(id uint64, mixed bool) int64 {
	if !mixed {
		return 1 << 20
	}
	return 64 << 10 << (id * 0x9e3779b97f4a7c15 >> 32 % 7)
}

// result is what a policy came to.
type result struct {
	hitRate, byteHitRate float64
	nsAccess             float64 // of processor time
}

// replay runs a workload through a policy.
func (w *workload) replay(p policy) result {
	hits, hitBytes := int64(0), int64(0)
	used := cputime.Process()
	for i := range w.accesses {
		a := &w.accesses[i]
		if p.access(a) && !a.scan {
			hits++
			hitBytes += a.sizeBytes
		}
	}
	used = cputime.Process() - used
	return result{
		hitRate: float64(hits) / float64(w.count), byteHitRate: float64(hitBytes) / float64(w.bytes),
		nsAccess: float64(used.Nanoseconds()) / float64(len(w.accesses)),
	}
}
