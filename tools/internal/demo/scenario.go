package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sealstone/sealstone/engine"
)

// scenario is one promise over a store of its own.
type scenario struct {
	name, how string
	// damage edits the closed store and names the blocks that must miss now;
	// nil damages nothing.
	damage func(p *patient) (victims []int, err error)
	// drop are blocks that are dropped before the damage.
	drop []int
	// test, if not nil, stands in for opening and reading all blocks.
	test func(ctx context.Context, dir string) (outcome string, held bool, err error)
	// extra looks at the reopened store for what else must be.
	extra func(s *engine.Store) (note string, held bool)
}

// run fills a store, damages it, and reads it again.
func (sc scenario) run(ctx context.Context, _ Config, dir string) ([]Promise, error) {
	if err := fill(ctx, dir, sc.drop...); err != nil {
		return nil, err
	}
	victims := slices.Clone(sc.drop)
	if sc.damage != nil {
		p, err := openPatient(dir)
		if err != nil {
			return nil, err
		}
		hit, err := sc.damage(p)
		if err != nil {
			return nil, fmt.Errorf("damage: %w", err)
		}
		victims = append(victims, hit...)
	}
	test := sc.test
	if test == nil {
		test = func(ctx context.Context, dir string) (string, bool, error) {
			return sc.reread(ctx, dir, victims)
		}
	}
	outcome, held, err := test(ctx, dir)
	if err != nil {
		return nil, err
	}
	return []Promise{{sc.name, sc.how, outcome, held}}, nil
}

// reread opens the damaged store, gets every block, and judges.
func (sc scenario) reread(ctx context.Context, dir string, victims []int) (outcome string, held bool, err error) {
	s, n, err := open(ctx, dir)
	if err != nil {
		return "the store did not open: " + err.Error(), false, nil
	}
	defer func() { err = errors.Join(err, closeStore(ctx, s)) }()
	outcome, held = judge(readAll(ctx, n), victims)
	if sc.extra != nil {
		note, ok := sc.extra(s)
		outcome, held = note+"; "+outcome, held && ok
	}
	return outcome, held, nil
}

// judge holds what was found against what must be: victims miss, all others
// are right, and no byte is wrong anywhere.
func judge(found []finding, victims []int) (outcome string, held bool) {
	held = true
	right := 0
	var misses, trouble []string
	for i, f := range found {
		victim := slices.Contains(victims, i)
		switch {
		case f.wrong > 0:
			trouble = append(trouble, fmt.Sprintf("block %d: %d WRONG BYTES with %s", i, f.wrong, f.status))
		case victim && f.status == engine.StatusOK:
			trouble = append(trouble, fmt.Sprintf("block %d: served, though damaged or dropped", i))
		case victim:
			misses = append(misses, fmt.Sprintf("block %d: %s", i, reasonOf(f)))
		case f.status == engine.StatusOK:
			right++
		default:
			trouble = append(trouble, fmt.Sprintf("block %d: LOST: %s", i, reasonOf(f)))
		}
	}
	if len(trouble) > 0 {
		return strings.Join(trouble, "; "), false
	}
	parts := shortList(misses)
	parts = append(parts, fmt.Sprintf("%d of %d blocks right", right, len(found)))
	return strings.Join(parts, "; "), held
}

// shortList keeps the first two and counts the rest.
func shortList(items []string) []string {
	const most = 2
	if len(items) <= most+1 {
		return items
	}
	return append(items[:most:most], fmt.Sprintf("%d more misses", len(items)-most))
}

// reasonOf is the status and the heart of the reason: without the block, which
// stands before it, and without the places, which stand in the error.
func reasonOf(f finding) string {
	_, reason, ok := strings.Cut(f.reason, f.status.String()+": ")
	if !ok {
		return f.status.String()
	}
	if _, deep, ok := strings.Cut(reason, "corrupt: "); ok {
		reason = deep
	}
	reason, _, _ = strings.Cut(reason, " (")
	reason, _, _ = strings.Cut(reason, "; ")
	return f.status.String() + ": " + reason
}
