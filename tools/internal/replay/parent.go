package replay

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"time"

	"github.com/sealstone/sealstone/tools/internal/blockgen"
	"github.com/sealstone/sealstone/tools/internal/diskuse"
)

// ErrChild: the child ended by itself, or said something that makes no sense.
var ErrChild = errors.New("replay: the child did not play its part")

// runChild runs the child until it is killed, and returns the account of what
// its store promised.
func (r *run) runChild(ctx context.Context, w *diskuse.Watcher) (*ledger, error) {
	if len(r.config.Child) == 0 {
		return nil, fmt.Errorf("%w: kill-after needs the command line of the child", ErrConfig)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // kills the child if anything goes wrong
	cmd := exec.CommandContext(ctx, r.config.Child[0], r.config.Child[1:]...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("replay: start the child: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("replay: start the child: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("replay: start the child: %w", err)
	}
	w.SetProcesses(os.Getpid(), cmd.Process.Pid)
	books := newLedger(r.trace)
	if err = json.NewEncoder(in).Encode(r.config); err == nil {
		err = r.follow(out, books, func() error {
			time.Sleep(r.config.KillDelay)
			return cmd.Process.Kill()
		})
	}
	cancel()
	waitErr := cmd.Wait()
	w.SetProcesses(os.Getpid())
	if err == nil && waitErr == nil {
		err = fmt.Errorf("%w: it ended before it was killed", ErrChild)
	}
	r.counters = books.counters
	return books, err
}

// follow reads the child's messages until the pipe ends, and kills the child
// as soon as a put begins after KillAfter finished requests. What the child
// said before it died still stands in the pipe, and counts.
func (r *run) follow(out io.Reader, books *ledger, kill func() error) error {
	decoder := json.NewDecoder(out)
	killed := false
	for {
		var m message
		err := decoder.Decode(&m)
		switch {
		case err != nil && killed:
			return nil // the end of the pipe, perhaps in the middle of a line
		case err != nil:
			return fmt.Errorf("%w: its messages ended before it was killed: %v", ErrChild, err)
		case m.Kind == msgError:
			return &childError{m.Text, m.Locked}
		case m.Kind == msgEnd && !killed:
			return fmt.Errorf("%w: no put began after request %d; choose a smaller kill-after", ErrChild, r.config.KillAfter)
		}
		books.apply(m)
		if m.Kind == msgDone && m.Outcome != nil && r.inTrace(m.Outcome) {
			if err := r.finished(*m.Outcome); err != nil {
				return err
			}
		}
		if m.Kind == msgPut && !killed && r.count >= r.config.KillAfter {
			if err := kill(); err != nil {
				return fmt.Errorf("replay: kill the child: %w", err)
			}
			killed = true
		}
	}
}

func (r *run) inTrace(o *Outcome) bool {
	return o.Request >= 0 && o.Request < len(r.done) && !r.done[o.Request]
}

// check asks the reopened store for every block that was ever put and
// compares what it answers with what was promised.
func (r *run) check(ctx context.Context, s Store, books *ledger, opened time.Duration) error {
	k := &KillReport{
		KilledAfter:    r.count,
		KilledInPut:    books.putting > 0,
		ReopenMS:       math.Round(float64(opened)/float64(time.Millisecond)*1000) / 1000,
		ReopenStatuses: map[string]int64{},
	}
	r.tally.report.KillReport = k
	books.totals(k)
	w, err := newWorker(r.config, r.trace, s, nobody{})
	if err != nil {
		return err
	}
	defer w.free()
	var missing []string
	for refs := books.refs(); len(refs) > 0 && ctx.Err() == nil; {
		n := min(len(refs), r.config.batchBlocks())
		missing = append(missing, r.checkBatch(ctx, w, books, k, refs[:n])...)
		refs = refs[n:]
	}
	// An eviction that the child had reported is no loss; more than those is.
	k.ReopenEvicted = min(k.ReopenMissing, books.counters.Evicted)
	k.ReopenMissing -= k.ReopenEvicted
	if k.ReopenMissing > 0 {
		for _, text := range missing {
			r.tally.problem(text)
		}
	}
	return ctx.Err()
}

// checkBatch returns the acknowledged blocks that were not found, in words.
func (r *run) checkBatch(ctx context.Context, w *worker, books *ledger, k *KillReport, refs []blockgen.Ref) (missing []string) {
	blocks := make([]Block, len(refs))
	for i, ref := range refs {
		h := ref.Hash()
		blocks[i] = Block{Hash: h[:], Data: w.slot(i)}
		poison(blocks[i].Data)
	}
	var o Outcome // bytes and problems; these are no hits of the trace
	for i, res := range judge(blocks, w.store.Get(ctx, blocks)) {
		k.ReopenStatuses[res.Status]++
		wrong := o.WrongBytes
		right := w.judgeGet(&o, fmt.Sprintf("after the kill: id %d", refs[i].ID), blocks[i].Data, res, refs[i])
		books.judge(k, refs[i], res.OK || o.WrongBytes > wrong, right)
		if e := books.blocks[refs[i]]; e.acked && !res.OK {
			missing = append(missing, fmt.Sprintf("after the kill: id %d was acknowledged: %v", refs[i].ID, res.Err))
		}
	}
	r.tally.report.WrongBytes += o.WrongBytes
	r.tally.report.VerifiedBytes += o.VerifiedBytes
	for _, p := range o.Problems {
		r.tally.problem(p)
	}
	return missing
}
