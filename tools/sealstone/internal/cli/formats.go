package cli

import (
	"maps"
	"slices"
)

// formatVersions are the versions of the artifacts that this build writes. A
// test compares them with what stands in the files of a store.
var formatVersions = map[string]uint16{
	"log":        1,
	"namespaces": 1,
	"segment":    1,
	"store":      1,
	"tombstones": 1,
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
