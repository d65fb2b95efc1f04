package engine

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/sealstone/sealstone/engine/meta"
	"github.com/sealstone/sealstone/tiers/disk"
)

// StoreStats says what a closed store holds and what that takes. Sizes are in
// bytes. Nothing is verified: figures come from the index, the footers and, in
// segments that are not sealed, the extents' headers.
type StoreStats struct {
	Dir  string `json:"dir"`
	UUID string `json:"uuid"`
	// What the parts take on disk, and the room of the file system under them.
	SegmentDiskBytes    int64 `json:"segment_disk_bytes"` // with tombstones
	LogDiskBytes        int64 `json:"log_disk_bytes"`
	IndexDiskBytes      int64 `json:"index_disk_bytes"`
	QuarantineDiskBytes int64 `json:"quarantine_disk_bytes"`
	DiskBytes           int64 `json:"disk_bytes"` // of all of these
	FilesystemBytes     int64 `json:"filesystem_bytes"`
	AvailableBytes      int64 `json:"available_bytes"`

	Totals     HeldBytes        `json:"totals"`
	Namespaces []NamespaceStats `json:"namespaces"`

	Segments int `json:"segments"`
	Sealed   int `json:"sealed"`
	// UnusedBytes of segments are neither live nor dead extents: headers,
	// footers, and what unsealed segments have left.
	UnusedBytes int64 `json:"unused_bytes"`
	// ByFill sorts the segments into tenths by the live share of their bytes,
	// ByAge into up to ten groups, the oldest first.
	ByFill [10]SegmentGroup `json:"by_fill"`
	ByAge  []SegmentGroup   `json:"by_age"`
	// Scrub is what the scrubber of the running store left; nil if it never
	// began, or its position cannot be read, which Warnings then says.
	Scrub *ScrubLeft `json:"scrub"`
	// Rebuild says why the next Open will rebuild the index; empty if not. The
	// blocks are then those that a rebuild may find.
	Rebuild string `json:"rebuild"`
	// Warnings are sentences about what makes blocks unreachable, and about
	// segments that could not be counted.
	Warnings []string `json:"warnings"`
}

// HeldBytes counts blocks and what they take.
type HeldBytes struct {
	Blocks   int64 `json:"blocks"`
	RawBytes int64 `json:"raw_bytes"` // as they were put
	// SharedBlocks of them have the bytes of another block, SharedRawBytes are
	// what need not be stored for it.
	SharedBlocks   int64 `json:"shared_blocks"`
	SharedRawBytes int64 `json:"shared_raw_bytes"`
	// StoredBytes are the extents in use: headers and payload in whole pages.
	StoredBytes  int64 `json:"stored_bytes"`
	PayloadBytes int64 `json:"payload_bytes"` // of StoredBytes
	DeadBytes    int64 `json:"dead_bytes"`    // extents that nothing refers to
	// Ratio is of raw bytes, each content once, to payload: above 1 where
	// compression gains, below where short planes fill their last pages badly.
	Ratio float64 `json:"ratio"`
}

// NamespaceStats is what one namespace holds.
type NamespaceStats struct {
	Number uint32 `json:"number"`
	Tenant string `json:"tenant"`
	Model  string `json:"model"`
	// RootHash is where the namespace's hash chains begin. Blocks put under one
	// are never found under another.
	RootHash string `json:"root_hash"`
	Epoch    uint64 `json:"epoch"`
	// EpochDeadBytes of DeadBytes lie under the namespace's epoch floor.
	EpochDeadBytes int64 `json:"epoch_dead_bytes"`
	HeldBytes
}

// SegmentGroup sums up some segments.
type SegmentGroup struct {
	Segments  int   `json:"segments"`
	FileBytes int64 `json:"file_bytes"`
	LiveBytes int64 `json:"live_bytes"`
	DeadBytes int64 `json:"dead_bytes"`
}

func (g *SegmentGroup) add(o SegmentGroup) {
	g.Segments += o.Segments
	g.FileBytes += o.FileBytes
	g.LiveBytes += o.LiveBytes
	g.DeadBytes += o.DeadBytes
}

// Stats counts what the store holds. Progress may be nil; it is told how many
// segments were counted.
func (i *Inspector) Stats(ctx context.Context, progress func(done, total int64)) (*StoreStats, error) {
	s := i.f.s
	c := newCounting(i.f)
	st := &StoreStats{
		Dir: s.dir, UUID: hex.EncodeToString(s.uuid[:]), SegmentDiskBytes: s.vol.AllocatedBytes(), LogDiskBytes: treeBytes(s.fs, logDir),
		IndexDiskBytes: treeBytes(s.fs, indexDir), QuarantineDiskBytes: treeBytes(s.fs, quarantineDir),
		Rebuild: i.f.rec.lost, Namespaces: []NamespaceStats{}, ByAge: []SegmentGroup{}, Warnings: rootWarnings(s.meta.Namespaces()),
	}
	st.DiskBytes = st.SegmentDiskBytes + st.LogDiskBytes + st.IndexDiskBytes + st.QuarantineDiskBytes
	if u, err := s.fs.Statfs(); err == nil {
		st.FilesystemBytes, st.AvailableBytes = u.TotalBytes, u.AvailableBytes
	}
	list := s.vol.Segments()
	c.v.collectForRebuild(list)
	for n, g := range list {
		group, err := c.segment(ctx, i, g)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			st.Warnings = append(st.Warnings, fmt.Sprintf("%s is not counted in full: %v", disk.SegmentName(g.ID), err))
		}
		st.group(n, len(list), g.Sealed, group)
		if progress != nil {
			progress(int64(n+1), int64(len(list)))
		}
	}
	c.finish(st, s.meta.Namespaces())
	st.addScrub(s)
	return st, nil
}

// group adds the n-th of all segments to the groups.
func (st *StoreStats) group(n, all int, sealed bool, g SegmentGroup) {
	st.Segments++
	if sealed {
		st.Sealed++
	}
	st.UnusedBytes += g.FileBytes - g.LiveBytes - g.DeadBytes
	if g.FileBytes > 0 {
		tenth := int(10 * g.LiveBytes / g.FileBytes)
		st.ByFill[max(0, min(tenth, 9))].add(g)
	}
	age := n * min(10, all) / all
	for len(st.ByAge) <= age {
		st.ByAge = append(st.ByAge, SegmentGroup{})
	}
	st.ByAge[age].add(g)
}

// rootWarnings finds namespaces of one tenant whose layouts differ in the root
// hash alone: an engine without a fixed hash seed makes a new one each time it
// starts, and finds nothing of what it has put before.
func rootWarnings(list []meta.Namespace) []string {
	out := []string{}
	first := map[string]uint32{}
	for _, n := range list {
		l := n.Layout.Clone()
		l.Hash.Root = ""
		p, err := json.Marshal(l)
		if err != nil {
			continue // a layout that was read can be written
		}
		key := n.Tenant + "\x00" + string(p)
		other, seen := first[key]
		if !seen {
			first[key] = n.Number
			continue
		}
		out = append(out, fmt.Sprintf("namespaces %d and %d differ in the root hash alone: what was put under one is never found under the other. "+
			"Give the engine a fixed hash seed", other, n.Number))
	}
	return out
}
