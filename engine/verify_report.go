package engine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/sealstone/sealstone/tiers/disk"
	"github.com/sealstone/sealstone/wal"
)

// DamageKind says what a finding of Verify is about.
type DamageKind string

// The kinds of damage. Only block, unreadable and segment cost stored blocks.
const (
	DamageStore      DamageKind = "store"       // a copy of STORE; the store opens from the other
	DamageNamespaces DamageKind = "namespaces"  // a copy of NAMESPACES; likewise
	DamageLog        DamageKind = "log"         // durable bytes of the log
	DamageIndex      DamageKind = "index"       // the index, or records of it that disagree; it can be rebuilt
	DamageSegment    DamageKind = "segment"     // the header page of a segment, or the file as a whole
	DamageFooter     DamageKind = "footer"      // the table of a sealed segment, which a rebuild reads
	DamageTombstones DamageKind = "tombstones"  // the sidecar: a rebuild leaves the segment's blocks out
	DamageBlock      DamageKind = "block"       // header or bytes of a stored block: its get is a miss
	DamageAlias      DamageKind = "alias"       // the own header of a block that shares bytes; a rebuild loses it
	DamagePadding    DamageKind = "padding"     // fill between planes is not zero; the block's bytes are good
	DamageDead       DamageKind = "dead_extent" // an extent that no block refers to any more
	DamageUnreadable DamageKind = "unreadable"  // the device or the file system failed
)

// Damage is one thing that Verify found.
type Damage struct {
	Kind DamageKind `json:"kind"`
	// File is named within the store's directory; Offset is where in it the
	// damaged artifact or chunk begins, -1 if that can not be said.
	File    string `json:"file"`
	Offset  int64  `json:"offset"`
	Segment uint64 `json:"segment,omitempty"`
	Page    uint32 `json:"page,omitempty"` // where the extent begins
	// Namespace and Hash (hexadecimal) name the block; Blocks is how many
	// share the damaged bytes.
	Namespace uint32 `json:"namespace,omitempty"`
	Hash      string `json:"hash,omitempty"`
	Blocks    int    `json:"blocks,omitempty"`
	Reason    string `json:"reason"`
	// Diagnoses say what the bad bytes look like: of the header, or of the
	// first 16 bad chunks of an extent; of the first 4,096 in all.
	Diagnoses []*Diagnosis `json:"diagnoses,omitempty"`
}

// String is the finding in one line.
func (d Damage) String() string {
	s := fmt.Sprintf("%s %s", d.Kind, d.File)
	if d.Offset >= 0 {
		s += fmt.Sprintf(" offset %d", d.Offset)
	}
	if d.Hash != "" {
		s += fmt.Sprintf(" block %s of namespace %d", d.Hash, d.Namespace)
	}
	return s + ": " + d.Reason
}

// maxDamageListed bounds VerifyReport.Damage; Damaged counts on.
const maxDamageListed = 10000

// VerifyReport is what Verify found. Sizes are in bytes.
type VerifyReport struct {
	Dir  string `json:"dir"`
	UUID string `json:"uuid"` // hexadecimal
	// Damaged is the number of findings, Damage the first 10,000 of them. They
	// are sorted by file and offset.
	Damaged int64    `json:"damaged"`
	Damage  []Damage `json:"damage"`
	// Notes are sentences about what is no damage and worth knowing.
	Notes []string `json:"notes"`
	// Namespaces says how many blocks each has, and how many are lost.
	Namespaces []NamespaceTotals `json:"namespaces"`
	// Blocks are stored and visible, or to be once the log is applied. Without
	// an index it is the most that a rebuild may find.
	Blocks    int64         `json:"blocks"`
	Segments  SegmentTotals `json:"segments"`
	Log       LogState      `json:"log"`
	Index     IndexState    `json:"index"`
	ReadBytes int64         `json:"read_bytes"` // of segment files
	// NotReadBytes of segment files were not looked at: they are outside the
	// sample, or the context ended before. The metadata, the log, the index and
	// all footers and tombstones are always read, unless Interrupted.
	NotReadBytes int64 `json:"not_read_bytes"`
	Interrupted  bool  `json:"interrupted"`
	// Sample is the part that was asked for; nil: all.
	Sample *Sample `json:"sample,omitempty"`
}

func newVerifyReport(dir string, s Sample) *VerifyReport {
	r := &VerifyReport{Dir: dir, Damage: []Damage{}, Notes: []string{}, Namespaces: []NamespaceTotals{}}
	if !s.all() {
		r.Sample = &s
	}
	return r
}

// SegmentTotals sum up what the segment files hold. The sizes from HeaderBytes
// to PassedBytes add up to FileBytes unless a segment is cut or unreadable.
type SegmentTotals struct {
	Files     int64 `json:"files"`
	Sealed    int64 `json:"sealed"`
	FileBytes int64 `json:"file_bytes"`

	HeaderBytes int64 `json:"header_bytes"` // of segments
	LiveBytes   int64 `json:"live_bytes"`   // extents that stored blocks refer to
	AliasBytes  int64 `json:"alias_bytes"`  // own headers of blocks that share bytes
	DeadBytes   int64 `json:"dead_bytes"`   // extents that nothing refers to
	GapBytes    int64 `json:"gap_bytes"`    // pages between extents that are none
	FooterBytes int64 `json:"footer_bytes"`
	TailBytes   int64 `json:"tail_bytes"`   // behind the last extent of an unsealed segment
	PassedBytes int64 `json:"passed_bytes"` // outside the sample, and in none of the above

	LiveExtents  int64 `json:"live_extents"`
	AliasExtents int64 `json:"alias_extents"`
	DeadExtents  int64 `json:"dead_extents"`
	// TornExtents are dead ones that no footer lists and that do not verify:
	// what a power cut leaves of a put that was never durable.
	TornExtents int64 `json:"torn_extents"`
	// QuarantinedExtents are known to be bad, and nothing refers to them.
	QuarantinedExtents int64 `json:"quarantined_extents"`
	// NonzeroUnusedBytes are bytes other than zero in gaps and tails, counted
	// in whole pages: what a crash leaves of writes that were cut off. Damage
	// in unused space can not be told from it.
	NonzeroUnusedBytes int64 `json:"nonzero_unused_bytes"`
	Tombstones         int64 `json:"tombstones"`
}

// LogState is what the log holds.
type LogState struct {
	Files   int   `json:"files"`
	Bytes   int64 `json:"bytes"`
	Groups  int   `json:"groups"`
	Records int   `json:"records"`
	// First and End are positions; DurableMark is the position up to which
	// records are facts.
	First       uint64 `json:"first"`
	End         uint64 `json:"end"`
	DurableMark uint64 `json:"durable_mark"`
	TornBytes   int64  `json:"torn_bytes"` // of the tail: normal after a crash
	// Pending records are not in the index yet; the next Open applies them.
	// Unproven ones it will drop.
	Pending  int `json:"pending"`
	Unproven int `json:"unproven"`
}

// IndexState is the state of the index.
type IndexState struct {
	// Rebuild says why the next Open will rebuild the index; empty if not.
	Rebuild    string `json:"rebuild"`
	Applied    uint64 `json:"applied"` // position in the log
	Keys       int64  `json:"keys"`
	Aliases    int64  `json:"aliases"`
	References int64  `json:"references"`
	Contents   int64  `json:"contents"`
	DiskBytes  int64  `json:"disk_bytes"`
}

// findings collects damage from several goroutines.
type findings struct {
	mu     sync.Mutex
	r      *VerifyReport
	totals map[uint32]*NamespaceTotals
}

func (f *findings) add(d Damage) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.r.Damaged++; len(f.r.Damage) < maxDamageListed {
		f.r.Damage = append(f.r.Damage, d)
	}
}

func (f *findings) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.r.Notes = append(f.r.Notes, fmt.Sprintf(format, args...))
}

// err adds what an error of another package says of file.
func (f *findings) err(kind DamageKind, file string, segment uint64, err error) {
	d := Damage{Kind: kind, File: file, Segment: segment, Offset: -1, Reason: err.Error()}
	var bad *disk.CorruptError
	var rot *wal.CorruptionError
	switch {
	case errors.As(err, &bad):
		d.Offset, d.Reason = bad.Offset, reasonOf(bad)
		if bad.File != "" {
			d.File = bad.File
		}
	case errors.As(err, &rot):
		d.File, d.Offset, d.Reason = rot.File, rot.Offset, rot.Reason
	}
	f.add(d)
}

// reasonOf is a CorruptError without its place.
func reasonOf(c *disk.CorruptError) string {
	s := c.What + ": " + c.Reason
	if c.Err != nil {
		s += ": " + c.Err.Error()
	}
	return s
}
