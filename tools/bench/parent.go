package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/sealstone/sealstone/tools/internal/diskuse"
	"github.com/sealstone/sealstone/tools/internal/pagecache"
)

// phaseTimeout ends a store that hangs.
const phaseTimeout = 15 * time.Minute

// config is what the command line asks for.
type config struct {
	dir      string
	stores   []contender
	work     work
	rounds   int
	progress func(format string, args ...any)
	// child starts this program as a child.
	child func(ctx context.Context) *exec.Cmd
}

// round is what one round of a store came to.
type round struct {
	write, reopen, read outcome
	diskBytes           int64
}

// compare runs all rounds of all stores; results are by store, then by round.
func compare(ctx context.Context, c config) ([][]round, error) {
	results := make([][]round, len(c.stores))
	for n := range c.rounds {
		for i := range c.stores {
			i = (i + n) % len(c.stores) // nobody always follows the same one
			c.progress("round %d of %d: %s", n+1, c.rounds, c.stores[i].name)
			r, err := c.round(ctx, c.stores[i])
			if err != nil {
				return nil, err
			}
			results[i] = append(results[i], r)
		}
	}
	return results, nil
}

// round makes a store in a new directory and removes it.
func (c config) round(ctx context.Context, s contender) (r round, err error) {
	dir, err := os.MkdirTemp(c.dir, "side-")
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	store := filepath.Join(dir, "store")
	if err := os.Mkdir(store, 0o700); err != nil {
		return r, err
	}
	for _, p := range []struct {
		name string
		out  *outcome
	}{{phaseWrite, &r.write}, {phaseReopen, &r.reopen}, {phaseRead, &r.read}} {
		if err := pagecache.Drop(store); err != nil {
			return r, err
		}
		if *p.out, err = c.phase(ctx, order{s.name, p.name, store, c.work}); err != nil {
			return r, err
		}
	}
	r.diskBytes, err = diskuse.Bytes(store)
	return r, err
}

// phase runs a child. One that wrote ends by killing itself, after it has said
// what came of it.
func (c config) phase(ctx context.Context, o order) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, phaseTimeout)
	defer cancel()
	in, err := json.Marshal(o)
	if err != nil {
		return outcome{}, err
	}
	cmd := c.child(ctx)
	var errs bytes.Buffer
	cmd.Stdin, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(in), &errs, time.Minute
	var out bytes.Buffer
	cmd.Stdout = &out
	err = cmd.Run()
	var res outcome
	if decoded := json.Unmarshal(out.Bytes(), &res); decoded != nil || err != nil && o.Phase != phaseWrite {
		return res, fmt.Errorf("%s: %s: %w: %s", o.Store, o.Phase, errors.Join(err, decoded, context.Cause(ctx)), bytes.TrimSpace(errs.Bytes()))
	}
	return res, nil
}
