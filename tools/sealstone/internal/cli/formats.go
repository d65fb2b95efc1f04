package cli

import (
	"maps"
	"slices"

	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/wal"
)

// formatVersions are the versions of the artifacts that this build writes. A
// test compares them with what stands in the files of a store.
var formatVersions = map[string]uint16{
	"log":        wal.FormatVersion,
	"namespaces": meta.FormatVersion,
	"segment":    disk.FormatVersion,
	"store":      meta.FormatVersion,
	"tombstones": disk.FormatVersion,
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
