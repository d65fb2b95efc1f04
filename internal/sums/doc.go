// Package sums holds every sum that Sealstone stores or checks.
//
// There are three, all made of XXH64 (64 bits, little endian where stored):
//
//   - a chunk sum, [Chunk]: plain XXH64 of at most 64 KiB of a plane, with
//     seed 0, so that a GPU kernel or a sender computes it without us;
//   - a content id, [Content]: 128 bits over the shape of a block and its
//     chunk sums, the address of the content;
//   - a keyed sum, [Key.Sum]: over the bytes of one artifact on disk, with a
//     secret of the store and a domain, so that an artifact of another store,
//     of another kind or of a caller's payload never validates.
//
// The sums guard against faults (rot, torn, stale or misdirected bytes), not
// against an attacker who knows the secret. Their exact definition, with test
// vectors, is in docs/format/sums.md; a change there is a change of format.
package sums
