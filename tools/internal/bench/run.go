package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/sealstone/sealstone/tools/internal/fio"
)

// What makes a run fail although it came to its end.
var (
	// ErrIncomplete: a store could not be filled, so there is nothing to read.
	ErrIncomplete = errors.New("bench: the store is not full")
	// ErrDepth: the requests in flight were fewer than asked for. The figures
	// are not those of that depth.
	ErrDepth = errors.New("bench: the depth was not reached")
)

// Run measures the workloads. Where the error is ErrDepth there is a report
// nevertheless.
func Run(ctx context.Context, c Config) (_ *Report, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &bench{config: c}
	if c.CompareFio {
		if b.tool, err = fio.Find(ctx); err != nil {
			return nil, err
		}
	}
	defer func() { err = errors.Join(err, b.keep(ctx, nil)) }()
	report := &Report{Setup: c.setup(b.tool)}
	var shallow error
	for _, name := range c.Workloads {
		r, err := b.workload(ctx, name)
		if err != nil && !errors.Is(err, ErrDepth) {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		shallow = errors.Join(shallow, err)
		report.Results = append(report.Results, r)
	}
	return report, shallow
}

type bench struct {
	config Config
	tool   *fio.Tool
	stages int
	last   *stage // kept for the next workload
	// chosen is the path of the first store. The stores after it are made with
	// the same one: a measurement at Open may come out otherwise each time.
	chosen PathInfo
	memory bool // the directory is in memory
	notes  []string
}

// note is a sentence for the report, once.
func (b *bench) note(s string) {
	if !slices.Contains(b.notes, s) {
		b.notes = append(b.notes, s)
	}
}

// workload runs all rounds of one workload, and of fio between them.
func (b *bench) workload(ctx context.Context, name string) (_ Result, err error) {
	b.notes = nil
	b.noteDevice()
	first, err := b.firstStage(ctx, name)
	if err != nil {
		return Result{}, err
	}
	yard, err := b.prepare(ctx, name, first)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, yard.close()) }()
	sum := summary{name: name, config: b.config, path: b.chosen, memory: b.memory}
	for n := range b.config.Rounds {
		s, err := b.stageOf(ctx, name, n)
		if err != nil {
			return Result{}, err
		}
		m, err := b.round(ctx, s, task{what: name, workload: name, round: n + 1})
		if err != nil {
			return Result{}, err
		}
		sum.rounds = append(sum.rounds, m)
		if err := yard.round(ctx, s, &sum); err != nil {
			return Result{}, err
		}
	}
	b.notePath(sum.path.Name)
	if err := b.finish(ctx, name, yard, &sum); err != nil {
		return Result{}, err
	}
	sum.notes = b.notes
	return sum.result()
}

// notePath says it when reads did not go the way that the report names.
func (b *bench) notePath(reported string) {
	if asked := b.config.Path; asked != PathAuto && reported != asked {
		b.note(fmt.Sprintf("path %s was asked for, the store used %s", asked, reported))
	}
	if now := b.last.store.Path().Name; now != reported {
		b.note(fmt.Sprintf("the path changed to %s while it was measured", now))
	}
}

// firstStage is the stage of the first round.
func (b *bench) firstStage(ctx context.Context, name string) (*stage, error) {
	if !workloads[name].fresh {
		return b.readStage(ctx, name)
	}
	return b.freshStage(ctx, name)
}

// stageOf is the stage of round n, counted from 0. Puts get a store of their
// own in every round, so that none of them has to evict.
func (b *bench) stageOf(ctx context.Context, name string, n int) (*stage, error) {
	if n == 0 || !workloads[name].fresh {
		return b.last, nil
	}
	return b.freshStage(ctx, name)
}

func (b *bench) freshStage(ctx context.Context, name string) (*stage, error) {
	if err := b.keep(ctx, nil); err != nil {
		return nil, err
	}
	s, err := b.open(ctx, b.config.planes(name))
	b.last = s
	return s, err
}

// finish does what is measured or looked at once, after the rounds.
func (b *bench) finish(ctx context.Context, name string, yard *yardstick, sum *summary) error {
	if b.config.Latency && name == Onboard {
		if err := b.latency(ctx, b.last, yard, sum); err != nil {
			return err
		}
	}
	if !workloads[name].moves || b.last.checked {
		return nil
	}
	m, err := b.round(ctx, b.last, task{what: name + ": check", workload: Onboard, check: true})
	if err != nil {
		return err
	}
	sum.checkFailed, sum.checkWrong = m.failed, m.wrong
	if name == Offload { // a put that was refused is not stored, and was counted
		sum.checkFailed = 0
	}
	b.last.checked = true
	return nil
}
