package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sealstone/sealstone/tools/internal/cputime"
	"github.com/sealstone/sealstone/tools/internal/stamp"
)

// The phases of a round, each in a process of its own.
const (
	phaseWrite  = "write"
	phaseReopen = "reopen" // after the process that wrote was killed
	phaseRead   = "read"
)

// order is what a child is told to do.
type order struct {
	Store, Phase, Dir string
	Work              work
}

// outcome is what it says that came of it.
type outcome struct {
	// Open is the time until the store answers a first get; not of writes.
	Open     time.Duration
	Wall     time.Duration
	CPU      time.Duration // without the stamps
	RSSBytes int64         // the most, without the buffers of the calls
	Wrong    int64         // blocks with other bytes than were put
}

// runChild does what an order on in says and writes the outcome to out. kill
// ends a process that wrote, with its store open.
func runChild(in io.Reader, out io.Writer, kill func() error) error {
	var o order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return fmt.Errorf("the order: %w", err)
	}
	c, err := contenderOf(o.Store)
	if err != nil {
		return err
	}
	begin := time.Now()
	s, err := c.open(o.Dir, o.Work)
	if err != nil {
		return fmt.Errorf("%s: open: %w", c.name, err)
	}
	p := &phase{order: o, store: s}
	res, err := p.run(begin)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", c.name, o.Phase, err)
	}
	if o.Phase != phaseWrite {
		if err := s.Close(); err != nil {
			return fmt.Errorf("%s: close: %w", c.name, err)
		}
	}
	if err := json.NewEncoder(out).Encode(res); err != nil || o.Phase != phaseWrite {
		return err
	}
	return kill()
}

// phase is one run over all blocks.
type phase struct {
	order
	store   store
	buffers [][]byte // by call
	own     atomic.Int64
	wrong   atomic.Int64
}

func (p *phase) run(begin time.Time) (outcome, error) {
	var res outcome
	calls := p.Work.Calls
	if p.Phase == phaseReopen {
		calls = 1
	}
	for range calls {
		b, free, err := p.store.NewBuffer(int(p.Work.batchBytes()))
		if err != nil {
			return res, err
		}
		defer free()
		if p.Phase == phaseWrite {
			stamp.Base(b)
		}
		p.buffers = append(p.buffers, b)
	}
	call := p.put
	if p.Phase != phaseWrite {
		call = p.get
		keys, dst := p.Work.cut([]int{0}, p.buffers[0])
		if err := p.store.Get(keys, dst); err != nil {
			return res, fmt.Errorf("the first block: %w", err)
		}
		res.Open = time.Since(begin)
	}
	if p.Phase == phaseReopen {
		return res, nil
	}
	cpu, from := cputime.Process(), time.Now()
	if err := p.all(call); err != nil {
		return res, err
	}
	if p.Phase == phaseWrite {
		if err := p.store.Sync(); err != nil {
			return res, fmt.Errorf("sync: %w", err)
		}
	}
	res.Wall, res.CPU = time.Since(from), cputime.Process()-cpu-time.Duration(p.own.Load())
	res.Wrong = p.wrong.Load()
	rss, err := peakRSS()
	res.RSSBytes = rss - int64(p.Work.Calls)*p.Work.batchBytes()
	return res, err
}

// all makes the calls, several at a time.
func (p *phase) all(call func(batch []int, buffer []byte) error) error {
	batches := p.Work.batches(p.Phase == phaseRead)
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make([]error, len(p.buffers))
	for w, buffer := range p.buffers {
		group.Go(func() {
			for errs[w] == nil {
				i := int(next.Add(1)) - 1
				if i >= len(batches) {
					return
				}
				errs[w] = call(batches[i], buffer)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

func (p *phase) put(batch []int, buffer []byte) error {
	keys, values := p.Work.cut(batch, buffer)
	p.apart(func() {
		for i, v := range values {
			stamp.Write(v, stamp.Ref(0, batch[i]))
		}
	})
	return p.store.Put(keys, values)
}

// get looks at one stamp of each block, which costs next to nothing.
func (p *phase) get(batch []int, buffer []byte) error {
	keys, dst := p.Work.cut(batch, buffer)
	at := make([]int, len(dst))
	for i, d := range dst {
		at[i] = rand.IntN(len(d)/stamp.Every) * stamp.Every
		clear(d[at[i] : at[i]+stamp.Bytes])
	}
	if err := p.store.Get(keys, dst); err != nil {
		return err
	}
	for i, d := range dst {
		if !stamp.At(d, at[i], at[i], stamp.Ref(0, batch[i])) {
			p.wrong.Add(1)
		}
	}
	return nil
}

// apart does work that is not the store's.
func (p *phase) apart(do func()) {
	elapsed := cputime.Thread()
	do()
	p.own.Add(int64(elapsed()))
}

// peakRSS is the most memory that this process had in RAM. Pages of mapped
// files are in it.
func peakRSS() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(kib), "kB")), 10, 64)
			return n << 10, err
		}
	}
	return 0, errors.New("/proc/self/status has no VmHWM")
}
