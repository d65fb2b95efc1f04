package cli

import (
	"maps"
	"slices"
)

// formatVersions are the versions of the artifacts that this build writes.
var formatVersions = map[string]uint16{
	"segment":    1,
	"log":        1,
	"store":      1,
	"namespaces": 1,
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
