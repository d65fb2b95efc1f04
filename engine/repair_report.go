package engine

import "fmt"

// RepairKind says what an action of Repair mends.
type RepairKind string

// The kinds of actions.
const (
	RepairMetadata   RepairKind = "metadata"   // STORE or NAMESPACES put together from two damaged copies
	RepairCopy       RepairKind = "copy"       // one copy of either written anew from the other
	RepairLog        RepairKind = "log"        // a damaged log given up; a new one is begun
	RepairIndex      RepairKind = "index"      // made anew from the segments
	RepairHeader     RepairKind = "header"     // the header page of a segment written anew
	RepairFooter     RepairKind = "footer"     // cut off and written anew
	RepairTombstones RepairKind = "tombstones" // a sidecar written anew
	RepairForget     RepairKind = "forget"     // a segment whose file is gone is taken out of the index
	RepairQuarantine RepairKind = "quarantine" // a block that does not verify is taken out
	RepairBury       RepairKind = "bury"       // an extent of no block that does not verify is marked as bad
)

// RepairAction is one thing that Repair does.
type RepairAction struct {
	Kind RepairKind `json:"kind"`
	// File is named within the store's directory. Segment and Page say where
	// the extent begins, for the kinds that are about one.
	File    string `json:"file"`
	Segment uint64 `json:"segment,omitempty"`
	Page    uint32 `json:"page,omitempty"`
	What    string `json:"what"`
	Why     string `json:"why"`
	// Blocks are lost by it, or rather were lost before it: RawBytes of them.
	Blocks   int64 `json:"blocks,omitempty"`
	RawBytes int64 `json:"raw_bytes,omitempty"`
	Done     bool  `json:"done"`
}

// String is the action in one line.
func (a RepairAction) String() string {
	s := fmt.Sprintf("%s %s: %s", a.Kind, a.File, a.What)
	if a.Blocks > 0 {
		s += fmt.Sprintf(" (%d blocks, %d bytes)", a.Blocks, a.RawBytes)
	}
	return s
}

// RepairReport is the plan of a repair, and what came of it.
type RepairReport struct {
	Dir     string         `json:"dir"`
	UUID    string         `json:"uuid"` // hexadecimal; empty if STORE is lost
	DryRun  bool           `json:"dry_run"`
	Actions []RepairAction `json:"actions"`
	// LostBlocks are misses from now on, as they were before but for what a
	// damaged sidecar costs; Namespaces says whose they are.
	LostBlocks   int64             `json:"lost_blocks"`
	LostRawBytes int64             `json:"lost_raw_bytes"`
	Namespaces   []NamespaceTotals `json:"namespaces"`
	// Left is damage that a repair does not mend: before the repair what it
	// will leave, afterwards what Verify still found.
	Left  []Damage `json:"left"`
	Notes []string `json:"notes"`
	// Refused says why nothing can or should be done.
	Refused string `json:"refused,omitempty"`
	// Repaired: all actions are done, and the store was verified again.
	Repaired bool `json:"repaired"`
	// Kept is the directory, within the store's, with a copy of what was
	// changed or removed and a manifest. It has KeptBytes, which count against
	// the capacity of the store until somebody removes it.
	Kept      string `json:"kept,omitempty"`
	KeptBytes int64  `json:"kept_bytes"`
}

func newRepairReport(dir string, dryRun bool) *RepairReport {
	return &RepairReport{Dir: dir, DryRun: dryRun,
		Actions: []RepairAction{}, Namespaces: []NamespaceTotals{}, Left: []Damage{}, Notes: []string{}}
}

// add takes over a plan.
func (r *RepairReport) add(p *repairPlan) {
	r.Actions = append(r.Actions, p.actions...)
	r.Left = append(r.Left, p.left...)
	r.Notes = append(r.Notes, p.notes...)
	r.LostBlocks, r.LostRawBytes = 0, 0
	for _, a := range r.Actions {
		r.LostBlocks += a.Blocks
		r.LostRawBytes += a.RawBytes
	}
	for _, n := range p.namespaces {
		if n.LostBlocks > 0 {
			r.Namespaces = append(r.Namespaces, n)
		}
	}
}

// leave replaces what was expected to be left by what is.
func (r *RepairReport) leave(after *VerifyReport) {
	r.Left = after.Damage
	if more := after.Damaged - int64(len(after.Damage)); more > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d more findings are left", more))
	}
	if after.Index.Rebuild != "" {
		r.Notes = append(r.Notes, "the next open will rebuild the index: "+after.Index.Rebuild)
	}
}

// done marks the actions of a kind, of one segment or (0) of all, as done.
func (r *RepairReport) done(kind RepairKind, segment uint64) {
	for i := range r.Actions {
		if a := &r.Actions[i]; a.Kind == kind && (segment == 0 || a.Segment == segment) {
			a.Done = true
		}
	}
}
