package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/sealstone/sealstone/engine/index"
	"github.com/sealstone/sealstone/internal/faults/faulttest"
	"github.com/sealstone/sealstone/internal/vfs"
)

// outcome is what may come of a fault. Whatever it is, no byte comes out
// wrong, nothing that was dropped returns, and what is lost is said.
type outcome uint8

const (
	unharmed  outcome = 1 << iota // all blocks are served
	healed                        // likewise, and a file was written again
	rebuilt                       // likewise, from a new index
	missed                        // blocks that the fault touched are misses
	lostIndex                     // the index fails while running: all misses, and the next Open rebuilds it
	refused                       // Open fails and names the file
)

var outcomeNames = []string{"unharmed", "healed", "rebuilt", "missed", "index lost while running", "refused"}

func (o outcome) String() string {
	var names []string
	for i, n := range outcomeNames {
		if o&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, " or ")
}

// mediaCase is one fault at one place.
type mediaCase struct {
	m     *mediaStore
	fault *mediaFault
	at    place
	hit   *struck
	disk  *vfs.Mem // what lies under hit.fs
}

// run strikes and judges; ok is false where the fault changes nothing.
func (c *mediaCase) run(t *testing.T, tally *faulttest.Tally) (got outcome, ok bool) {
	t.Helper()
	c.disk = c.m.clone()
	if c.hit = c.fault.strike(t, c.m, c.disk, c.at); c.hit == nil {
		return 0, false
	}
	name := fmt.Sprintf("%s: %s from %d to %d", c.fault.name, c.at.file, c.at.from, c.at.to)
	before := c.m.verifyMedia(t, c)
	vd := c.m.examineMedia(c.hit.fs)
	tally.WrongBytes(vd.wrongBytes)
	if !c.hit.fired() {
		return 0, false // nobody reads there
	}
	fault := tally.Try(name)
	fault.Fire()
	got = c.classify(vd)
	wrong := append(c.judge(vd, got, before), c.again(vd, got, tally)...)
	if got == refused && c.fault.kind == unreadable {
		wrong = append(wrong, c.followAdvice(t, vd.refused)...)
	}
	for _, w := range wrong {
		t.Errorf("%s: %v: %s; reported %.900q", name, got, w, vd.reported)
	}
	if len(wrong) == 0 {
		fault.Survive()
	}
	return got, true
}

func (c *mediaCase) classify(vd *verdict) outcome {
	said := func(kind EventKind) bool {
		return slices.ContainsFunc(vd.reported, func(s string) bool { return strings.HasPrefix(s, kind.String()+": ") })
	}
	switch {
	case vd.refused != nil:
		return refused
	case vd.health.State == HealthAllMiss && len(vd.health.Reasons) > 0:
		return lostIndex
	case len(vd.lost()) > 0:
		return missed
	case said(EventRebuild):
		return rebuilt
	case said(EventHealed):
		return healed
	}
	return unharmed
}

// judge holds an outcome against the table and against what was said.
func (c *mediaCase) judge(vd *verdict, got outcome, verified []string) (wrong []string) {
	wrong = vd.wrong
	if want := mediaOutcomes[artifactOf(c.at.file)][c.fault.kind]; got&want == 0 {
		wrong = append(wrong, fmt.Sprintf("want %v", want))
	}
	if got == missed && !subset(vd.lost(), c.mayLose()) {
		wrong = append(wrong, fmt.Sprintf("blocks %v are lost, %v were touched", vd.lost(), c.mayLose()))
	}
	if got == refused && !errors.Is(vd.refused, ErrDamaged) && c.fault.kind != unreadable {
		wrong = append(wrong, fmt.Sprintf("refused without ErrDamaged: %v", vd.refused))
	}
	all := strings.Join(vd.reported, "\n")
	if got != unharmed && !c.names(all) {
		wrong = append(wrong, "nothing that is said names the file")
	}
	if got == unharmed && len(vd.reported)+len(verified) == 0 && !c.untold() {
		wrong = append(wrong, "nobody has noticed")
	}
	return wrong
}

// names reports whether a report leads to the file.
func (c *mediaCase) names(report string) bool {
	base := path.Base(c.at.file)
	id := strings.TrimSuffix(strings.TrimSuffix(base, ".seg"), ".del")
	var n uint64
	_, _ = fmt.Sscanf(id, "%x", &n)
	return strings.Contains(report, base) || strings.Contains(report, id) ||
		strings.Contains(report, fmt.Sprintf("segment %d", n)) && artifactOf(c.at.file) >= artifactSegment ||
		strings.Contains(report, path.Dir(c.at.file)+" ") || strings.Contains(report, "the log ")
}

// untold are faults that need not be said: in files that nothing depends on,
// where a crash leaves bytes in any state, and what the format can not tell.
func (c *mediaCase) untold() bool {
	if c.fault.kind == unreadable { // and yet all was served
		return true
	}
	switch artifactOf(c.at.file) {
	case artifactLock, artifactProbe, artifactEvidence, artifactIndexOther:
		return true
	case artifactManifest, artifactTable: // one that is no longer in use, or bytes behind its end
		return c.m.unused[c.at.file] || c.fault.kind == fileLonger
	case artifactTombstones: // docs/format/tombstone.md, "Not caught"
		return strings.Contains(c.fault.name, "zeros")
	case artifactSegment:
		return c.fault.kind == fileLonger || !slices.ContainsFunc(c.hit.harmed, func(p place) bool { return !c.m.dead(p) })
	}
	return false
}

// mayLose are the blocks that the harmed places belong to.
func (c *mediaCase) mayLose() (ids []int) {
	for _, h := range c.hit.harmed {
		if artifactOf(h.file) != artifactSegment {
			continue
		}
		for off := h.from; off < h.to; off += 512 {
			ids = append(ids, c.m.ownersIn(h.file, off)...)
		}
	}
	return ids
}

// followAdvice does what an error of the device asks for: without the file
// that can not be read, the store opens.
func (c *mediaCase) followAdvice(t *testing.T, refusal error) (wrong []string) {
	t.Helper()
	text := refusal.Error()
	if !errors.Is(refusal, ErrDevice) || !strings.Contains(text, "nothing was given up") {
		return []string{"refused without ErrDevice"}
	}
	disk := c.m.clone()
	hit := c.fault.strike(t, c.m, disk, c.at)
	var may []int
	drop := []string{c.at.file}
	switch artifactOf(c.at.file) {
	case artifactSegment, artifactTombstones:
		base := strings.TrimSuffix(strings.TrimSuffix(c.at.file, ".seg"), ".del")
		drop = []string{base + ".seg", base + ".del"}
		may = c.m.ownersOf(base + ".seg")
	case artifactManifest, artifactTable, artifactIndexOther:
		drop = []string{indexDir}
	}
	for _, name := range drop {
		if err := disk.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
	vd := c.m.examineMedia(hit.fs)
	wrong = vd.wrong
	if vd.refused != nil {
		wrong = append(wrong, fmt.Sprintf("refused after the advice (%s): %v", text, vd.refused))
	}
	if !subset(vd.lost(), may) {
		wrong = append(wrong, fmt.Sprintf("after the advice blocks %v are lost", vd.lost()))
	}
	return wrong
}

// again opens the store once more: what was lost stays lost and nothing else
// goes; and what was only not to be read is back once it can be.
func (c *mediaCase) again(vd *verdict, got outcome, tally *faulttest.Tally) (wrong []string) {
	next := c.m.examineMedia(c.disk)
	tally.WrongBytes(next.wrongBytes)
	for _, w := range next.wrong {
		wrong = append(wrong, "at the next open: "+w)
	}
	transient := c.fault.kind == unreadable || c.fault.kind == wrongAnswer
	switch lost := next.lost(); {
	case next.refused != nil && (got != refused || transient):
		wrong = append(wrong, fmt.Sprintf("the next open is refused: %v", next.refused))
	case c.fault.kind == unreadable && len(lost) > 0:
		wrong = append(wrong, fmt.Sprintf("blocks %v could not be read for a while and are lost", lost))
	case got != lostIndex && !subset(lost, append(vd.lost(), c.mayLose()...)):
		wrong = append(wrong, fmt.Sprintf("blocks %v are lost at the next open", lost))
	case got == lostIndex && len(lost) > 0:
		wrong = append(wrong, fmt.Sprintf("blocks %v are lost after the rebuild", lost))
	}
	return wrong
}

// examineMedia is examine, and a put: a store that opens takes one, or says in
// its health why not.
func (m *mediaStore) examineMedia(fs vfs.FS) *verdict {
	vd := &verdict{status: map[int]Status{}, ioErrors: true}
	s, err := Open("mem", victimOptions(fs))
	if err != nil {
		vd.refused = err
		vd.reported = append(vd.reported, "open: "+err.Error())
		return vd
	}
	m.readAll(s, vd)
	vd.health = s.Health()
	if vd.health.State == HealthOK {
		vd.putNew(s)
	}
	for e, n := range eventCounts(s) {
		if n > m.events[e] {
			vd.reported = append(vd.reported, e)
		}
	}
	switch err := s.Close(context.Background()); {
	case err == nil || vd.health.State != HealthOK:
	case errors.Is(err, index.ErrFailed): // a compaction met the damage last of all
		vd.health = Health{HealthAllMiss, []string{err.Error()}}
		vd.reported = append(vd.reported, "close: "+err.Error())
	default:
		vd.wrongf("close: %v", err)
	}
	return vd
}

// putNew puts a block that the store never had.
func (vd *verdict) putNew(s *Store) {
	n, err := s.Namespace(context.Background(), testLayout(), "tenant", NamespaceOptions{})
	if err != nil {
		vd.wrongf("namespace: %v", err)
		return
	}
	b := victimBlock{77, 77, 0, 5000}
	p := blockOf(b.content, b.variant, b.size)
	if r := putOne(n, p); r.Status != StatusOK {
		vd.wrongf("put of a new block: %v %v", r.Status, r.Err)
	}
	if p, r := readVictim(n, b); r.Status != StatusOK || wrongBytes(p, b.want()) > 0 {
		vd.wrongf("the new block: %v %v", r.Status, r.Err)
	}
}

// verifyMedia is what the offline check says of the struck store.
func (m *mediaStore) verifyMedia(t *testing.T, c *mediaCase) []string {
	t.Helper()
	r, err := verify(context.Background(), "mem", VerifyOptions{}, victimOptions(c.hit.fs).private)
	if err != nil {
		if c.fault.kind != unreadable {
			t.Errorf("%s of %s from %d: verify: %v", c.fault.name, c.at.file, c.at.from, err)
		}
		return []string{err.Error()}
	}
	var out []string
	for _, d := range r.Damage {
		out = append(out, d.String())
	}
	for _, n := range append(r.Notes, fmt.Sprint(r.Segments.NonzeroUnusedBytes, " bytes in unused space")) {
		if !slices.Contains(m.verifiedNotes, n) {
			out = append(out, n)
		}
	}
	return out
}

// TestFaultMedia: every fault of the media at every place of every file.
func TestFaultMedia(t *testing.T) {
	m := newMediaStore(t)
	byArtifact := make([][]string, artifacts)
	for _, f := range allFiles(t, m.fs, ".") {
		byArtifact[artifactOf(f)] = append(byArtifact[artifactOf(f)], f)
	}
	for a, files := range byArtifact {
		if len(files) == 0 {
			t.Errorf("the store has no %v", artifact(a))
		}
		t.Run(artifact(a).String(), func(t *testing.T) {
			t.Parallel()
			m.strikeAll(t, files)
		})
	}
}

func (m *mediaStore) strikeAll(t *testing.T, files []string) {
	t.Helper()
	tally := faulttest.New(t)
	some := 2 // a normal run takes every second fault of a file
	if fullTests {
		some = 1
	} else if testing.Short() {
		some = 7
	}
	for i := range mediaFaults {
		f := &mediaFaults[i]
		seen := map[string]int{}
		for k, file := range files {
			if (i+k)%some != 0 { // the other copy, or segment, gets it
				continue
			}
			for _, at := range m.places(t, file, f.unitBytes) {
				if got, ok := (&mediaCase{m: m, fault: f, at: at}).run(t, tally); ok {
					seen[got.String()]++
				}
			}
		}
		t.Logf("%v: %s: %v", artifactOf(files[0]), f.name, seen)
	}
	tally.Settle()
}
