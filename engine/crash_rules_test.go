package engine

import (
	"slices"
	"testing"

	"github.com/sealstone/sealstone/internal/vfs"
)

// protocolRule is a rule of the protocol with a short history that breaks a
// store without it; several where it can be left out in several ways.
type protocolRule struct {
	rule string
	run  func(*rig)
}

func TestLaw3Rules(t *testing.T) {
	for _, c := range slices.Concat(openRules, putRules, dropRules, evictRules, aliasRules) {
		t.Run(c.rule, func(t *testing.T) {
			r := newRig(t)
			c.run(r)
			mustClose(t, r.s)
		})
	}
}

// TestLaw3RulesCompressed is about compressed extents as targets of aliases,
// and as what eviction moves.
func TestLaw3RulesCompressed(t *testing.T) {
	squeezed(t, CompressionS2, CompressionZstd, CompressionOff)
	for _, c := range slices.Concat(evictRules, aliasRules) {
		t.Run(c.rule, func(t *testing.T) {
			r := newRig(t)
			c.run(r)
			mustClose(t, r.s)
		})
	}
}

// TestLaw3EveryOperation crashes one history before each of its operations,
// and the Open that follows before each of its own.
func TestLaw3EveryOperation(t *testing.T) {
	modes := []vfs.CrashOptions{
		{KeepAll: true},
		{},
		{Seed: 1, KeepBytes: 0.5, KeepNames: 0.5, TornSectorBytes: 512},
		{Seed: 2, KeepBytes: 0.5, KeepNames: 1, TornSectorBytes: 4096},
		cutOptions([]string{logToo}),
		cutOptions([]string{segsToo}),
	}
	if !fullTests {
		modes = []vfs.CrashOptions{modes[0], modes[2], modes[4]}
	}
	step := uint64(1)
	if !fullTests {
		step = 7 // of the operations of Open after the crash
	}
	if testing.Short() && !fullTests { // the race detector looks for races, not for crash points
		modes, step = modes[1:2], 23
	}
	for m, mode := range modes {
		for k := uint64(1); k <= everyOperationMax; k++ {
			crashTwice(t, m, crashPlan{at: k, options: mode}, step)
		}
	}
}

// everyOperationMax bounds the operations of the short history.
const everyOperationMax = 90
