package engine

import (
	"os"
	"strconv"
	"testing"
)

// fullTests is set for the long versions of tests (make full).
var fullTests = os.Getenv("SEALSTONE_FULL") != ""

// seedsToRun gives the seeds of a randomised test: the one that is asked for
// by SEALSTONE_SEED, or few, or with SEALSTONE_FULL many.
func seedsToRun(t *testing.T, few, many int) []uint64 {
	t.Helper()
	if v := os.Getenv("SEALSTONE_SEED"); v != "" {
		seed, err := strconv.ParseUint(v, 10, 64)
		if err != nil {
			t.Fatalf("SEALSTONE_SEED: %v", err)
		}
		return []uint64{seed}
	}
	n := few
	if fullTests {
		n = many
	} else if testing.Short() {
		n = few/10 + 1
	}
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = firstSeed(t) + uint64(i)
	}
	return seeds
}

// firstSeed lets a long run go on where another one ended.
func firstSeed(t *testing.T) uint64 {
	t.Helper()
	v := os.Getenv("SEALSTONE_FIRST_SEED")
	if v == "" {
		return 1
	}
	seed, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		t.Fatalf("SEALSTONE_FIRST_SEED: %v", err)
	}
	return seed
}
