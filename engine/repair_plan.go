package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/vfs"
	"github.com/sealstone/sealstone/tiers/disk"
)

// repairPlan is what a repair will do.
type repairPlan struct {
	actions     []RepairAction
	left        []Damage
	notes       []string
	namespaces  []NamespaceTotals
	blocks      int64
	quarantined int64

	bad      []disk.Address // extents to take out, if they still do not verify
	headers  []uint64
	footers  []uint64
	sidecars map[uint64][]disk.Tombstone
	rebuild  string   // why the index is made anew, or ""
	keep     []string // files that Open will change or remove
	state    string   // of the store when the plan was made
}

// planner makes a plan from what Verify found, on a store that is held.
type planner struct {
	*offline
	p     *repairPlan
	found *survey
}

// survey is what one Verify found.
type survey struct {
	*VerifyReport
	bad []BlockVerdict // blocks and extents that do not verify
}

// note collects the verdicts that a repair has to do with. A block that shares
// its bytes is lost with its own header's file too.
func (s *survey) note(b BlockVerdict) error {
	switch {
	case b.Verdict == VerdictDamaged && b.Role == RoleBlock, b.Verdict == VerdictMissing, b.Verdict == VerdictDeadBad:
		s.bad = append(s.bad, b)
	}
	return nil
}

func (r *repairer) plan(ctx context.Context, found *survey) (*repairPlan, error) {
	p := &repairPlan{sidecars: map[uint64][]disk.Tombstone{}, blocks: found.Blocks, namespaces: found.Namespaces, notes: found.Notes}
	if found.Damaged == 0 && found.Index.Rebuild == "" {
		return p, nil
	}
	f, err := openOffline(r.dir, r.private)
	if err != nil {
		return nil, err
	}
	m := &planner{offline: f, p: p, found: found}
	err = m.run(ctx)
	if err == nil {
		p.state, err = stateOf(f.s.fs)
	}
	return p, errors.Join(err, f.close())
}

func (m *planner) run(ctx context.Context) error {
	if err := m.indexJudged(); err != nil {
		return err
	}
	if err := m.contradictions(ctx); err != nil {
		return err
	}
	m.files()
	m.index()
	if err := m.tombstones(ctx); err != nil {
		return err
	}
	m.missing()
	m.extents()
	return nil
}

// indexJudged takes over why the index is to be made anew. An index that could
// not be read is none that is damaged: it may be all that knows what a damaged
// sidecar named.
func (m *planner) indexJudged() error {
	err := m.indexErr
	if err != nil && !errors.Is(err, index.ErrDamaged) && !errors.Is(err, index.ErrIncomplete) && !errors.Is(err, index.ErrFailed) {
		return fmt.Errorf("the index can not be judged: %w", deviceError(err))
	}
	m.p.rebuild = m.found.Index.Rebuild
	known := m.rec.lost != "" || m.p.rebuild == ""
	for _, d := range m.found.Damage {
		if d.Kind == DamageIndex {
			m.p.rebuild = cmp.Or(m.p.rebuild, d.Reason)
			known = true
		}
	}
	if !known {
		return fmt.Errorf("%w: the index could not be read, and now it can (%s): run the repair again", ErrDevice, m.p.rebuild)
	}
	return nil
}

// contradictions finds blocks that verify and of which the index says
// something else: it is the index that is wrong.
func (m *planner) contradictions(ctx context.Context) error {
	if m.p.rebuild != "" {
		return nil
	}
	keep := m.found.bad[:0]
	for _, b := range m.found.bad {
		if b.Verdict == VerdictDamaged {
			sound, err := m.verifies(ctx, disk.Address{Segment: b.Segment, Page: b.Page})
			if err != nil {
				return err
			}
			if sound {
				m.p.rebuild = fmt.Sprintf("block %s of namespace %d verifies, and the index says something else of it", b.Hash, b.Namespace)
				continue
			}
		}
		keep = append(keep, b)
	}
	m.found.bad = keep
	return nil
}

// verifies reports whether the bytes at an address are those of the header sum
// that the index has.
func (m *planner) verifies(ctx context.Context, at disk.Address) (bool, error) {
	keys, err := (&verifier{offline: m.offline}).keysOf(ctx, at.Segment)
	if err != nil {
		return false, err
	}
	for _, k := range keys {
		if k.Address == at && m.s.vol.VerifyExtent(ctx, at, k.HeaderSum) == nil {
			return true, nil
		}
	}
	return false, context.Cause(ctx)
}

func (p *repairPlan) act(a RepairAction) { p.actions = append(p.actions, a) }

// files plans what is to be done about whole files.
func (m *planner) files() {
	p := m.p
	seen := map[string]bool{}
	for _, d := range m.found.Damage {
		a := RepairAction{File: d.File, Segment: d.Segment, Why: d.Reason}
		switch d.Kind {
		case DamageStore, DamageNamespaces:
			a.Kind, a.What = RepairCopy, "is written anew from the other copy"
			p.keep = append(p.keep, d.File)
		case DamageLog:
			a.Kind, a.What = RepairLog, "the log is given up behind the damage, and a new one begun; the segments hold what it said of blocks"
			p.keep = append(p.keep, m.logFiles(d.File)...)
		case DamageSegment:
			a.Kind, a.What = RepairHeader, "the header page is written anew; the extents stay as they are"
			p.headers = append(p.headers, d.Segment)
		case DamageFooter:
			a.Kind, a.What = RepairFooter, "is written anew with the extents that are in use"
			if !slices.Contains(p.footers, d.Segment) {
				p.footers = append(p.footers, d.Segment)
			}
		case DamageAlias, DamagePadding, DamageUnreadable:
			p.left = append(p.left, d)
			continue
		default:
			continue
		}
		if key := string(a.Kind) + a.File; !seen[key] {
			seen[key] = true
			p.act(a)
		}
	}
}

// logFiles are the files to keep of a damaged log: the one that is named, or
// all.
func (m *planner) logFiles(name string) []string {
	if name != logDir {
		return []string{name}
	}
	var all []string
	for _, f := range m.rec.log.Files {
		all = append(all, f.Name)
	}
	return all
}

func (m *planner) index() {
	if m.p.rebuild == "" {
		return
	}
	m.p.act(RepairAction{Kind: RepairIndex, File: indexDir, Why: m.p.rebuild, What: "is made anew from the segments; what was dropped, evicted or quarantined stays gone"})
}

// missing plans for the segments whose files are gone: Open forgets them.
func (m *planner) missing() {
	lost := map[uint64]*RepairAction{}
	counted := map[string]bool{} // one may lack both its bytes and its header
	for _, b := range m.found.bad {
		if key := fmt.Sprintf("%d %s", b.Namespace, b.Hash); b.Verdict != VerdictMissing || counted[key] {
			continue
		} else {
			counted[key] = true
		}
		a := lost[b.Segment]
		if a == nil {
			a = &RepairAction{Kind: RepairForget, File: disk.SegmentName(b.Segment), Segment: b.Segment, Why: "the file is missing", What: "its blocks are taken out of the index"}
			lost[b.Segment] = a
		}
		a.Blocks++
		a.RawBytes += b.RawBytes
	}
	for _, id := range slices.Sorted(maps.Keys(lost)) {
		m.p.act(*lost[id])
	}
}

// extents plans what is to be done about extents that do not verify. Those of
// a segment whose blocks are all given up are among what that costs.
func (m *planner) extents() {
	at := map[disk.Address]*RepairAction{}
	var order []*RepairAction
	for _, b := range m.found.bad {
		if b.Verdict == VerdictMissing || b.Page == 0 {
			continue
		}
		place := disk.Address{Segment: b.Segment, Page: b.Page}
		a := at[place]
		if a == nil {
			a = &RepairAction{Kind: RepairBury, File: disk.SegmentName(b.Segment), Segment: b.Segment, Page: b.Page, Why: "an extent of no block does not verify",
				What: fmt.Sprintf("the extent at page %d is marked as bad", b.Page)}
			at[place] = a
			order = append(order, a)
		}
		if b.Role == RoleBlock {
			a.Kind, a.Why = RepairQuarantine, "it does not verify"
			a.What = fmt.Sprintf("block %s of namespace %d at page %d is quarantined, with all who share its bytes", b.Hash, b.Namespace, b.Page)
			if !m.givenUp(b.Segment) {
				a.Blocks++
				a.RawBytes += b.RawBytes
				m.p.quarantined++
			}
		}
	}
	slices.SortFunc(order, func(a, b *RepairAction) int {
		return cmp.Or(cmp.Compare(a.Segment, b.Segment), cmp.Compare(a.Page, b.Page))
	})
	for _, a := range order {
		m.p.bad = append(m.p.bad, disk.Address{Segment: a.Segment, Page: a.Page})
		m.p.act(*a)
	}
}

// givenUp reports whether all blocks of a segment are.
func (m *planner) givenUp(segment uint64) bool {
	_, sidecar := m.p.sidecars[segment]
	return sidecar && m.p.rebuild != ""
}

// stateOf is a summary of a store's files by which it can be told whether
// somebody has opened it in between: each Open for writing begins a new log.
func stateOf(fs vfs.FS) (string, error) {
	var b strings.Builder
	for _, dir := range []string{logDir, indexDir, "segments"} {
		if err := listSizes(fs, dir, &b); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}

func listSizes(fs vfs.FS, name string, b *strings.Builder) error {
	i, err := fs.Stat(name)
	if vfs.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if !i.IsDir {
		fmt.Fprintf(b, "%s %d\n", name, i.SizeBytes)
		return nil
	}
	names, err := fs.List(name)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := listSizes(fs, name+"/"+n, b); err != nil {
			return err
		}
	}
	return nil
}
