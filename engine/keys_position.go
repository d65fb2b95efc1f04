package engine

import "github.com/sealstone/sealstone/engine/index"

// KeysPosition is where a hash stands in the order of Namespace.Keys, as far as
// 64 bits tell: a cursor for those who can keep no more. For all purposes but
// a search for collisions it is the hash itself.
func KeysPosition(hash []byte) uint64 { return index.Position(hash) }

// KeysBehind is an "after" for Namespace.Keys, behind all hashes that stand at a
// position.
func KeysBehind(position uint64) []byte { return index.Behind(position) }
