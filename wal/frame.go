package wal

import (
	"encoding/binary"
	"fmt"

	"github.com/cespare/xxhash/v2"
)

// Frames stand behind the header page, each at a multiple of 8 bytes:
//
//	┌──────────┬──────┬──────────┬──────────────────┬─────────────────┐
//	│ length   │ type │ zero     │ payload          │ zero to a       │
//	│ u32      │ u8   │ 3 bytes  │ length bytes     │ multiple of 8   │
//	└──────────┴──────┴──────────┴──────────────────┴─────────────────┘
//
// Type 1 is a record. Type 2 is a commit; one ends each group, as
//
//	┌────────┬──────┬───────────────────────────────────────────────────┐
//	│ offset │ size │ field of the commit frame                         │
//	├────────┼──────┼───────────────────────────────────────────────────┤
//	│      0 │    8 │ frame header: length 40, type 2                   │
//	│      8 │    4 │ group length in bytes, this frame included        │
//	│     12 │    4 │ number of records                                 │
//	│     16 │    8 │ synced LSN: the log is durable up to here         │
//	│     24 │    8 │ mark LSN: the owner's                             │
//	│     32 │    8 │ own sum: XXH64 (salt, LSN of this frame, bytes    │
//	│        │      │ 0 to 31)                                          │
//	│     40 │    8 │ chain sum: XXH64 (chain sum before, all bytes of  │
//	│        │      │ the group up to here)                             │
//	└────────┴──────┴───────────────────────────────────────────────────┘
//
// The chain starts with the header's self-sum. A frame that is stale, moved
// or behind a hole cannot match its chain sum; the own sum still proves that
// this log wrote the commit, and how far it was synced then.
const (
	frameAlign         = 8
	frameHeaderBytes   = 8
	commitPayloadBytes = 40
	commitFrameBytes   = frameHeaderBytes + commitPayloadBytes
	commitOwnSumOff    = 32
	commitChainSumOff  = 40

	typeRecord = 1
	typeCommit = 2

	commitFrameHeader uint64 = commitPayloadBytes | typeCommit<<32
)

// frameBytes is the room of a frame with a payload of n bytes.
func frameBytes(n int) int64 { return alignUp(frameHeaderBytes + int64(n)) }

// groupBytes is the room of a group with these records.
func groupBytes(records [][]byte) int64 {
	n := int64(commitFrameBytes)
	for _, r := range records {
		n += frameBytes(len(r))
	}
	return n
}

// commit is a decoded commit frame.
type commit struct {
	groupBytes   uint32
	records      uint32
	synced, mark LSN
	chainSum     uint64
}

// ownSum is the unchained sum of a commit frame at lsn.
func ownSum(salt uint64, lsn LSN, frame []byte) uint64 {
	var b [16 + commitOwnSumOff]byte
	binary.LittleEndian.PutUint64(b[:], salt)
	binary.LittleEndian.PutUint64(b[8:], uint64(lsn))
	copy(b[16:], frame[:commitOwnSumOff])
	return xxhash.Sum64(b[:])
}

// chainSum links a group (up to its last field) to the sum before it.
func chainSum(prev uint64, group []byte) uint64 {
	var b [8]byte
	var d xxhash.Digest
	d.Reset()
	binary.LittleEndian.PutUint64(b[:], prev)
	_, _ = d.Write(b[:]) // a Digest never fails
	_, _ = d.Write(group)
	return d.Sum64()
}

// appendGroup appends a whole group at lsn to dst, which must be empty, and
// returns it with the new chain sum.
func appendGroup(dst []byte, lsn LSN, salt, chain uint64, synced, mark LSN, records [][]byte) ([]byte, uint64) {
	le := binary.LittleEndian
	for _, r := range records {
		dst = le.AppendUint64(dst, uint64(len(r))|typeRecord<<32)
		dst = append(dst, r...)
		for len(dst)%frameAlign != 0 {
			dst = append(dst, 0)
		}
	}
	at := len(dst)
	dst = le.AppendUint64(dst, commitFrameHeader)
	dst = le.AppendUint32(dst, uint32(at+commitFrameBytes))
	dst = le.AppendUint32(dst, uint32(len(records)))
	dst = le.AppendUint64(dst, uint64(synced))
	dst = le.AppendUint64(dst, uint64(mark))
	dst = le.AppendUint64(dst, ownSum(salt, lsn+LSN(at), dst[at:]))
	sum := chainSum(chain, dst)
	return le.AppendUint64(dst, sum), sum
}

// decodeCommit reads the commit frame at the start of p, which stands at lsn;
// false unless its own sum proves that the log with this salt wrote it.
func decodeCommit(p []byte, salt uint64, lsn LSN) (commit, bool) {
	le := binary.LittleEndian
	if len(p) < commitFrameBytes || le.Uint64(p) != commitFrameHeader ||
		le.Uint64(p[commitOwnSumOff:]) != ownSum(salt, lsn, p) {
		return commit{}, false
	}
	c := commit{
		groupBytes: le.Uint32(p[8:]),
		records:    le.Uint32(p[12:]),
		synced:     LSN(le.Uint64(p[16:])),
		mark:       LSN(le.Uint64(p[24:])),
		chainSum:   le.Uint64(p[commitChainSumOff:]),
	}
	// No writer knows more durable than it wrote before.
	return c, c.synced <= lsn && c.mark <= c.synced
}

// recordLength reads the header of a record frame with room for it in p.
func recordLength(p []byte) (int, string) {
	v := binary.LittleEndian.Uint64(p)
	length, kind := uint32(v), uint8(v>>32)
	switch {
	case v == 0:
		return 0, "zeros in place of a frame"
	case kind != typeRecord && kind != typeCommit:
		return 0, fmt.Sprintf("frame of unknown type %d", kind)
	case v>>40 != 0:
		return 0, "frame header has bytes that must be zero"
	case kind == typeCommit:
		return 0, "commit frame with a bad sum or length"
	case length == 0 || length > MaxRecordBytes:
		return 0, fmt.Sprintf("record frame of %d bytes", length)
	case frameBytes(int(length)) > int64(len(p)):
		return 0, fmt.Sprintf("record frame of %d bytes runs past the end of the file", length)
	}
	return int(length), ""
}
