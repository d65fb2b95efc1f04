package engine

import (
	"fmt"
	"time"

	"github.com/sealstone/sealstone/internal/vfs"
)

// ScrubLeft is how far the scrubber of a store had come when it was closed.
type ScrubLeft struct {
	Written time.Time  `json:"written"`
	Cycle   ScrubRound `json:"cycle"` // under way; the next Open goes on with it
	Last    ScrubRound `json:"last"`  // that ended last; number 0: none did
}

// ScrubRound sums up one cycle. What it means and what to do about it stands in
// docs/operations.md.
type ScrubRound struct {
	Number     uint64    `json:"number"`
	Start      time.Time `json:"start"`
	End        time.Time `json:"end"` // zero while it runs
	Blocks     int64     `json:"blocks"`
	Bytes      int64     `json:"bytes"`
	Bad        int64     `json:"bad"`        // blocks that did not verify
	Damaged    int64     `json:"damaged"`    // places that are no block: headers, footers, tombstones
	Unreadable int64     `json:"unreadable"` // kept, the device answered with an error
}

func (st *StoreStats) addScrub(s *Store) {
	pos, err := readScrub(s.fs, s.uuid, s.key)
	switch {
	case vfs.IsNotExist(err):
	case err != nil:
		st.Warnings = append(st.Warnings, fmt.Sprintf("the position of the scrubber can not be read, a cycle begins anew: %v", err))
	default:
		st.Scrub = &ScrubLeft{Written: pos.written, Cycle: roundOf(&pos.cycle), Last: roundOf(&pos.last)}
	}
}

func roundOf(c *ScrubCycle) ScrubRound {
	return ScrubRound{
		Number: c.Number, Start: c.Start, End: c.End, Blocks: c.Blocks, Bytes: c.Bytes,
		Bad: c.Bad, Damaged: c.Damaged, Unreadable: c.Unreadable,
	}
}
