package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine/meta"
)

// RepairOptions configures Repair.
type RepairOptions struct {
	// DryRun makes the plan and changes nothing.
	DryRun bool
	// Confirm, if not nil, is shown the plan before anything is changed; false
	// ends the repair there.
	Confirm func(*RepairReport) (bool, error)
	// Progress is told what is done at the moment, and how far it is. It is
	// called by one goroutine at a time.
	Progress func(what string, doneBytes, totalBytes int64)
	// BytesPerSecond bounds reads of segments; 0 is no bound.
	BytesPerSecond int64
	// Workers is that of VerifyOptions.
	Workers int
	// MaxQuarantined is how many blocks may be taken out because they do not
	// verify. The default is an eighth of the blocks, at least 64; more look
	// like bad memory or a bad driver, which must not empty a store. Negative:
	// any number.
	MaxQuarantined int64
}

// ErrTooMuchDamage: more blocks do not verify than a repair takes out unasked.
var ErrTooMuchDamage = errors.New("engine: too much damage")

// Repair makes a damaged store openable, and sound: afterwards Open succeeds
// and Verify finds nothing but what RepairReport.Left names. It reads the
// whole store, makes a plan, and acts on it. Bytes are never guessed: a block
// that does not verify is quarantined and a miss from then on, with its
// evidence kept as Store keeps it; every other block is served as before.
// Nothing comes back that was dropped, evicted, quarantined, or belongs to an
// older epoch; where it is unknown what was dropped, all that may have been
// stays gone.
//
// What is changed or removed is first copied into a directory of the store,
// RepairReport.Kept. Each step leaves the store no worse than it was: a repair
// that failed or was killed can be run again. A sound store is not touched.
//
// Errors: ErrLocked, ErrNoStore, ErrUnsupported, ErrDamaged (STORE or
// NAMESPACES are lost, and with them what the blocks mean), ErrTooMuchDamage,
// ErrInvalid, the context's, those of the file system. The report comes with
// the error where there is one.
func Repair(ctx context.Context, dir string, o RepairOptions) (*RepairReport, error) {
	return repair(ctx, dir, o, privateOptions{})
}

func repair(ctx context.Context, dir string, o RepairOptions, private privateOptions) (*RepairReport, error) {
	if o.Progress == nil {
		o.Progress = func(string, int64, int64) {}
	}
	r := &repairer{dir: dir, o: o, private: private, report: newRepairReport(dir, o.DryRun)}
	if err := r.run(ctx); err != nil {
		return r.report, fmt.Errorf("engine: repair %s: %w", dir, err)
	}
	return r.report, nil
}

// repairer is a Repair under way.
type repairer struct {
	dir     string
	o       RepairOptions
	private privateOptions
	report  *RepairReport
	kept    *keeper
}

func (r *repairer) run(ctx context.Context) error {
	restored, err := r.metadata(ctx)
	if err != nil || restored && !r.report.Actions[0].Done {
		return err
	}
	found := &survey{}
	found.VerifyReport, err = r.verify(ctx, "verify", found.note)
	if err != nil {
		return err
	}
	r.report.UUID = found.UUID
	p, err := r.plan(ctx, found)
	if err != nil {
		return err
	}
	r.report.add(p)
	if len(p.actions) == 0 {
		r.report.Repaired = restored // and what was just verified is the result
		return nil
	}
	if err := r.tooMuch(p); err != nil {
		return err
	}
	if ok, err := r.confirmed(); !ok || err != nil {
		return err
	}
	if err := r.act(ctx, p); err != nil {
		return err
	}
	after, err := r.verify(ctx, "verify again", nil)
	if err != nil {
		return err
	}
	r.report.Repaired = true
	r.report.leave(after)
	return nil
}

// verify reads all there is.
func (r *repairer) verify(ctx context.Context, what string, note func(BlockVerdict) error) (*VerifyReport, error) {
	o := VerifyOptions{
		Workers: r.o.Workers, Progress: func(done, total int64) { r.o.Progress(what, done, total) }, Block: note,
		BytesPerSecond: r.o.BytesPerSecond,
	}
	return verify(ctx, r.dir, o, r.private)
}

// confirmed asks whoever gave the order.
func (r *repairer) confirmed() (bool, error) {
	if r.o.DryRun {
		return false, nil
	}
	if r.o.Confirm == nil {
		return true, nil
	}
	return r.o.Confirm(r.report)
}

// tooMuch is an error for a plan that would take out too many blocks.
func (r *repairer) tooMuch(p *repairPlan) error {
	limit := r.o.MaxQuarantined
	if limit == 0 {
		limit = max(64, p.blocks/8)
	}
	if limit < 0 || p.quarantined <= limit {
		return nil
	}
	err := fmt.Errorf("%w: %d of %d blocks do not verify: this looks like bad memory, a bad driver or a bad cable; test the machine, verify again, and raise MaxQuarantined (%d) if they are really lost",
		ErrTooMuchDamage, p.quarantined, p.blocks, limit)
	r.report.Refused = err.Error()
	if r.o.DryRun {
		return nil
	}
	return err
}

// metadata puts STORE and NAMESPACES together again where no copy of one is
// whole. Without them nothing can be said of anything else.
func (r *repairer) metadata(ctx context.Context) (restored bool, err error) {
	found, err := r.lostMetadata()
	if err != nil || len(found) == 0 {
		return false, err
	}
	for _, f := range found {
		r.report.Actions = append(r.report.Actions, RepairAction{Kind: RepairMetadata, File: f.File, Why: "no copy is whole",
			What: "put together from " + f.How + ", proven by its keyed sum, and written to both copies"})
	}
	if ok, err := r.confirmed(); !ok || err != nil {
		return true, err
	}
	if err := ctx.Err(); err != nil {
		return false, context.Cause(ctx)
	}
	return true, r.restoreMetadata(found)
}

// lostMetadata looks whether a file of the metadata is lost, and what can be
// had of it again.
func (r *repairer) lostMetadata() (found []meta.Salvaged, err error) {
	s, err := lookInto(r.dir, r.private)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.release()) }()
	_, _, lost := meta.Open(s.fs, true)
	if !errors.Is(lost, meta.ErrDamaged) {
		return nil, metaError(lost) // also nil
	}
	found, err = meta.Salvage(s.fs)
	switch {
	case err != nil:
		return nil, r.hopeless(err)
	case len(found) == 0: // two whole copies that contradict each other
		return nil, r.hopeless(lost)
	}
	return found, nil
}

func (r *repairer) restoreMetadata(found []meta.Salvaged) (err error) {
	s, err := openRoot(r.dir, r.private)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.release()) }()
	k, err := r.keeper(s)
	if err != nil {
		return err
	}
	for _, name := range metaFiles {
		if err := k.copyFile(name, 0, -1); err != nil {
			return err
		}
	}
	for i, f := range found {
		if err := f.Restore(s.fs); err != nil {
			return err
		}
		r.report.Actions[i].Done = true
	}
	return k.finish(r.report)
}

// metaFiles are the copies of the metadata.
var metaFiles = []string{meta.StoreFile, meta.StoreCopyFile, meta.NamespacesFile, meta.NamespacesCopyFile}

// hopeless reports a store whose metadata is lost.
func (r *repairer) hopeless(err error) error {
	var d *meta.DamagedError
	if errors.As(err, &d) {
		for _, f := range d.Findings {
			r.report.Left = append(r.report.Left, Damage{Kind: metadataKind(f.File), File: f.File, Offset: -1, Reason: f.Problem})
		}
	}
	r.report.Refused = "the blocks can neither be verified nor told apart without this file; nothing was changed. " +
		"Restore it from a backup, or set the content aside and begin anew (" + setAsideAdvice + ")"
	return fmt.Errorf("%w: %w; or let Open set the content aside (%s)", ErrDamaged, err, setAsideAdvice)
}

// setAsideAdvice names the way out that is always there.
const setAsideAdvice = "Options.OnIncompatible, --on-incompatible set-aside"

// lookInto opens the directory of a store for looking.
func lookInto(dir string, private privateOptions) (*Store, error) {
	o, err := Options{ReadOnly: true, MustExist: true, private: private}.withDefaults()
	if err != nil {
		return nil, err
	}
	s := newStore(dir, o)
	err = s.openFS()
	if err == nil {
		err = s.holdReadOnly()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("engine: open %s: %w", dir, err), s.release())
	}
	return s, nil
}

// openRoot opens the directory of a store and holds its lock; the caller calls
// release.
func openRoot(dir string, private privateOptions) (*Store, error) {
	o, err := workshopOptions(private).withDefaults()
	if err != nil {
		return nil, err
	}
	s := newStore(dir, o)
	if err := s.openFS(); err != nil {
		return nil, errors.Join(err, s.release())
	}
	err = requireStore(s.fs)
	if err == nil {
		err = s.takeLock()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("engine: open %s: %w", dir, err), s.release())
	}
	return s, nil
}
