package engine

import (
	"slices"
	"testing"
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
