package killloop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sealstone/sealstone/engine"
)

// ErrChild: the child ended by itself, or hung.
var ErrChild = errors.New("killloop: the child did not live until it was killed")

// Phase is where in its life a child was killed.
type Phase string

// The phases, told by the last record in the pipe.
const (
	PhaseOpen  Phase = "in Open"
	PhaseWork  Phase = "at work"
	PhaseEvict Phase = "in an eviction"
	PhaseClose Phase = "in Close"
	PhaseEnd   Phase = "closed"
)

// lifeMax only catches a child that hangs.
const lifeMax = 2 * time.Minute

// storeBytesMax is where a store is thrown away and a new one begun, so that
// capacity never makes it evict by itself: what is lost then is lost for good.
const storeBytesMax = 24 << 20

// Runner kills children that work on one store, one after the other.
type Runner struct {
	// Command is the command line of the child; it must call RunChild.
	Command []string
	Env     []string // beside the parent's
	Config  Config   // Dir, Path, Seed and Evict are the caller's

	rng     *rand.Rand
	books   *ledger
	version uint64
}

// Totals is what came of it so far.
func (r *Runner) Totals() Totals {
	if r.books == nil {
		return Totals{}
	}
	return r.books.totals
}

// aim is when a child is to be killed: so long after the n-th record of a kind.
type aim struct {
	kind  kind
	count int
	delay time.Duration
	ops   int
}

func (r *Runner) aim() aim {
	short := time.Duration(r.rng.IntN(3000)) * time.Microsecond
	switch k := r.rng.IntN(10); {
	case k < 2: // an Open takes some ten milliseconds
		return aim{kindOpening, 1, time.Duration(r.rng.IntN(40)) * time.Millisecond, opsPerLife}
	case k < 4:
		return aim{kindClosing, 1, time.Duration(r.rng.IntN(12)) * time.Millisecond, 5 + r.rng.IntN(20)}
	case k < 6 && r.Config.Evict:
		return aim{kindEvicting, 1, short, opsPerLife}
	}
	return aim{kindPut, 1 + r.rng.IntN(workers*opsPerLife/2), short, opsPerLife}
}

// Kill lets a child live and kills it. It returns in which phase.
func (r *Runner) Kill(ctx context.Context) (Phase, error) {
	if r.rng == nil {
		r.rng, r.books = rand.New(rand.NewPCG(r.Config.Seed, 0)), newLedger()
	}
	ctx, cancel := context.WithTimeout(ctx, lifeMax)
	defer cancel()
	if err := r.renew(); err != nil {
		return "", err
	}
	a := r.aim()
	c := r.Config
	c.Seed, c.FirstVersion, c.Ops = r.rng.Uint64(), r.version, a.ops
	r.version += 1 << 20
	cmd := exec.CommandContext(ctx, r.Command[0], r.Command[1:]...)
	cmd.Env = append(os.Environ(), r.Env...)
	var said strings.Builder
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", fmt.Errorf("killloop: start the child: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", fmt.Errorf("killloop: start the child: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("killloop: start the child: %w", err)
	}
	phase, killed := PhaseOpen, false
	if err = json.NewEncoder(in).Encode(c); err == nil {
		phase, killed, err = r.follow(out, a, cmd.Process.Kill)
	}
	// Whatever went wrong, nothing of the child is left behind.
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	status, _ := cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case err != nil:
		return "", err
	case !killed || ctx.Err() != nil || !status.Signaled() || status.Signal() != syscall.SIGKILL:
		return "", fmt.Errorf("%w: %s: %s", ErrChild, cmd.ProcessState, strings.TrimSpace(said.String()))
	}
	r.books.totals.Kills++
	return phase, nil
}

// follow enters what the child says until its pipe ends, and kills it when the
// time has come.
func (r *Runner) follow(out io.Reader, a aim, kill func() error) (phase Phase, killed bool, err error) {
	in := bufio.NewReader(out)
	phase = PhaseOpen
	for {
		rec, err := readRecord(in)
		if err != nil || rec.kind == kindFailed {
			return phase, killed && err != nil, nil // it is dead, or about to end by itself
		}
		r.books.apply(rec)
		phase = phase.next(rec.kind)
		if rec.kind == a.kind {
			a.count--
		}
		// A child that did not come so far is killed when it has closed.
		if !killed && (rec.kind == a.kind && a.count <= 0 || rec.kind == kindClosed) {
			time.Sleep(a.delay)
			if err := kill(); err != nil {
				return phase, false, fmt.Errorf("killloop: kill the child: %w", err)
			}
			killed = true
		}
	}
}

func (p Phase) next(k kind) Phase {
	switch k {
	case kindOpening:
		return PhaseOpen
	case kindOpened, kindEvicted:
		return PhaseWork
	case kindEvicting:
		return PhaseEvict
	case kindClosing:
		return PhaseClose
	case kindClosed:
		return PhaseEnd
	}
	return p
}

// renew begins a new store when the present one has grown.
func (r *Runner) renew() error {
	size := int64(0)
	err := filepath.Walk(r.Config.Dir, func(_ string, i os.FileInfo, err error) error {
		if err == nil && strings.HasSuffix(i.Name(), ".seg") {
			size += i.Size()
		}
		return nil // what is not there yet has no size
	})
	if err != nil || size < storeBytesMax {
		return err
	}
	if err := os.RemoveAll(r.Config.Dir); err != nil {
		return fmt.Errorf("killloop: remove the store: %w", err)
	}
	totals := r.books.totals
	r.books = newLedger()
	r.books.totals = totals
	return nil
}

// Check opens the store, looks at every key, and closes it. It returns what is
// not as it was promised, in words.
func (r *Runner) Check(ctx context.Context) (problems []string, err error) {
	s, err := engine.Open(r.Config.Dir, r.Config.options())
	if err != nil {
		return nil, fmt.Errorf("killloop: open after %d kills: %w", r.books.totals.Kills, err)
	}
	defer func() { err = errors.Join(err, s.Close(ctx)) }()
	if st := s.Stats(); st.EvictedSegments != 0 || st.Unproven != 0 {
		problems = append(problems, fmt.Sprintf("Open evicted %d segments and took %d records for unproven", st.EvictedSegments, st.Unproven))
	}
	n, err := s.Namespace(ctx, blockLayout(), tenant, engine.NamespaceOptions{})
	if err != nil {
		return problems, fmt.Errorf("killloop: open after %d kills: %w", r.books.totals.Kills, err)
	}
	for key := range uint32(keys) {
		rec := record{kind: kindGot, key: key}
		if rec.status, rec.version, err = getKey(ctx, n, key); err != nil {
			r.books.totals.Wrong++
			problems = append(problems, err.Error())
			continue
		}
		if p := r.books.found(rec); p != "" {
			problems = append(problems, p)
		}
	}
	if h := s.Health(); h.State != engine.HealthOK {
		problems = append(problems, fmt.Sprintf("health %s %v", h.State, h.Reasons))
	}
	return problems, nil
}
