package demo

import (
	"context"
	"errors"
	"fmt"

	"github.com/sealstone/sealstone/engine"
)

// scenarios are the promises about damage, in the order of the table.
var scenarios = []scenario{
	{
		name: "a flipped bit is a miss",
		how:  "one bit of block 5 flipped in its segment",
		damage: func(p *patient) ([]int, error) {
			l, err := p.find(labHash(5))
			if err != nil {
				return nil, err
			}
			return []int{5}, p.flipBit(l, 70000) // in its second chunk
		},
	},
	{
		name: "swapped blocks are misses",
		how:  "the extents of blocks 3 and 7 exchanged, headers and all",
		damage: func(p *patient) ([]int, error) {
			return swapWith(p, (*patient).swap)
		},
	},
	{
		name: "swapped payloads are misses",
		how:  "the payloads of blocks 3 and 7 exchanged under their headers",
		damage: func(p *patient) ([]int, error) {
			return swapWith(p, (*patient).swapPayloads)
		},
	},
	{
		name: "a consistent forgery is a miss",
		how:  "block 4 overwritten; its sums, content id and header made to agree",
		damage: func(p *patient) ([]int, error) {
			l, err := p.find(labHash(4))
			if err != nil {
				return nil, err
			}
			return []int{4}, p.forge(l, func(b []byte) { labBytes.Fill(b, labRef(400)) })
		},
	},
	{
		name:   "a cut segment costs only what it held",
		how:    "the segment cut in the middle of block 8",
		damage: cutAtBlock(8),
	},
	{
		name:   "a lost index is rebuilt",
		how:    "block 2 dropped, then the index deleted",
		drop:   []int{2},
		damage: func(p *patient) ([]int, error) { return nil, p.deleteIndex() },
		extra: func(s *engine.Store) (string, bool) {
			n := s.Stats().Rebuilds
			return fmt.Sprintf("rebuilt %d time", n), n == 1
		},
	},
	{
		name: "another layout gets no block",
		how:  "opened with one field changed: head_size 64 to 128",
		test: otherLayout,
	},
	{
		name: "a store has one owner",
		how:  "opened a second time while it is open",
		test: secondOwner,
	},
}

func swapWith(p *patient, swap func(p *patient, a, b located) error) ([]int, error) {
	a, err := p.find(labHash(3))
	if err != nil {
		return nil, err
	}
	b, err := p.find(labHash(7))
	if err != nil {
		return nil, err
	}
	return []int{3, 7}, swap(p, a, b)
}

// cutAtBlock truncates the block's segment inside of it: this block and those
// behind it in the same file are gone.
func cutAtBlock(block int) func(p *patient) ([]int, error) {
	return func(p *patient) ([]int, error) {
		at, err := p.find(labHash(block))
		if err != nil {
			return nil, err
		}
		var victims []int
		for i := range labBlocks {
			l, err := p.find(labHash(i))
			if err != nil {
				return nil, err
			}
			if l.path == at.path && l.offset >= at.offset {
				victims = append(victims, i)
			}
		}
		return victims, p.cut(at)
	}
}

// otherLayout opens the namespace with one field changed.
func otherLayout(ctx context.Context, dir string) (outcome string, held bool, err error) {
	s, _, err := open(ctx, dir)
	if err != nil {
		return "", false, err
	}
	defer func() { err = errors.Join(err, closeStore(ctx, s)) }()
	l := labLayout()
	l.HeadSize = 128
	_, strict := s.Namespace(ctx, l, labTenant, engine.NamespaceOptions{RequireMatch: true})
	n, err := s.Namespace(ctx, l, labTenant, engine.NamespaceOptions{})
	if err != nil {
		return "", false, err
	}
	missed := 0
	for _, f := range readAll(ctx, n) {
		if f.status == engine.StatusMiss && f.wrong == 0 {
			missed++
		}
	}
	d := n.Differences()
	outcome = fmt.Sprintf("%d of %d blocks miss; differences: %v", missed, labBlocks, d)
	if !errors.Is(strict, engine.ErrLayoutMismatch) {
		outcome += fmt.Sprintf("; RequireMatch answered %v", strict)
	}
	held = missed == labBlocks && len(d) == 1 && d[0].Field == "head_size" && errors.Is(strict, engine.ErrLayoutMismatch)
	return outcome, held, nil
}

// secondOwner opens the store twice.
func secondOwner(ctx context.Context, dir string) (outcome string, held bool, err error) {
	s, n, err := open(ctx, dir)
	if err != nil {
		return "", false, err
	}
	defer func() { err = errors.Join(err, closeStore(ctx, s)) }()
	second, _, err := open(ctx, dir)
	if err == nil {
		return "opened twice", false, closeStore(ctx, second)
	}
	if !errors.Is(err, engine.ErrLocked) {
		return "", false, err
	}
	outcome, held = judge(readAll(ctx, n), nil)
	return err.Error() + "; meanwhile " + outcome, held, nil
}
