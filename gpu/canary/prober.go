package canary

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sealstone/sealstone/gpu"
)

// Bounds of a Prober.
const (
	// abandonedMax is how many children may hang within the kernel before no
	// more are started.
	abandonedMax = 4
	// verdictsMax bounds the verdicts kept in memory.
	verdictsMax = 4096
)

// Prober keeps the verdicts of a process. Its methods may be called from any
// goroutine; one canary runs at a time.
type Prober struct {
	o    Options
	turn chan struct{} // held by the canary that runs
	// key tells where this process is; only the holder of turn calls it.
	key   func(context.Context, request) (gpu.VerdictKey, *finding)
	grace time.Duration // see parentGrace

	mu       sync.Mutex
	verdicts map[Pair]gpu.Verdict
	hung     map[place]gpu.Verdict
	// abandoned are children that could not be ended; only the holder of turn
	// touches them.
	abandoned []childProcess
}

// place is a GPU and a file system: what a hang bans, whatever the directory.
type place struct{ gpu, device string }

// New checks the options. It starts nothing.
func New(o Options) (*Prober, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Prober{
		o: o, turn: make(chan struct{}, 1), key: (&facts{o: o}).key, grace: parentGrace,
		verdicts: map[Pair]gpu.Verdict{}, hung: map[place]gpu.Verdict{},
	}, nil
}

// Probe finds out whether files of dir can be read straight into the memory of
// the GPU of this UUID (GPU-…, as NVML prints it). A refusal is no error: the
// verdict says why. The error is that of ctx, or of a directory that cannot be
// named.
//
// It takes as long as Options.Timeout and some seconds at most. A child that
// hangs within the kernel is left behind and says so in the verdict: nobody can
// end it.
func (p *Prober) Probe(ctx context.Context, uuid, dir string) (gpu.Verdict, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return gpu.Verdict{Dir: dir}, fmt.Errorf("canary: %w", err)
	}
	select {
	case p.turn <- struct{}{}:
		defer func() { <-p.turn }()
	case <-ctx.Done():
		return gpu.Verdict{Dir: dir}, context.Cause(ctx)
	}
	start := time.Now()
	p.reap()
	v := p.probe(ctx, uuid, dir)
	if err := context.Cause(ctx); err != nil && v.Name != nameHung {
		return gpu.Verdict{Dir: dir}, err
	}
	if !v.Cached {
		v.When, v.TookMs = time.Now().UTC(), time.Since(start).Milliseconds()
		p.remember(uuid, dir, &v)
	}
	return v, nil
}

// Verdict is what this process knows of the pair, without a trial.
func (p *Prober) Verdict(uuid, dir string) gpu.Verdict {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return gpu.Verdict{Dir: dir}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if v, ok := p.verdicts[Pair{uuid, dir}]; ok {
		return v
	}
	return gpu.Verdict{Dir: dir}
}

// probe does what can be decided without a child, then asks one.
func (p *Prober) probe(ctx context.Context, uuid, dir string) gpu.Verdict {
	r := p.request(uuid, dir)
	v := gpu.Verdict{Dir: dir, Key: gpu.VerdictKey{GPU: uuid}, Checks: []gpu.VerdictCheck{}}
	if f := p.admit(uuid, dir); f != nil {
		return refuse(v, f)
	}
	key, f := p.key(ctx, r)
	v.Key = key
	if f != nil {
		return refuse(v, f)
	}
	if known, ok := p.known(uuid, dir, key); ok {
		return known
	}
	kept, notes := p.load(uuid, dir, key)
	if kept != nil {
		p.keep(uuid, dir, *kept)
		return *kept
	}
	v = p.askChild(ctx, r, v)
	v.Dir, v.Notes = dir, append(notes, v.Notes...)
	return v
}

// admit refuses what must not, or need not, even be tried.
func (p *Prober) admit(uuid, dir string) *finding {
	if _, err := parseUUID(uuid); err != nil {
		return found(nameNoGPU, "%v", err)
	}
	vm := p.o.VM
	if vm == nil {
		seen := CheckVM(p.o.Root)
		vm = &seen
	}
	if vm.Virtual && !p.o.allows(uuid, dir) {
		return found(nameVM, "this is a virtual machine (%s). A device may be told an address here that means other memory on its bus, so even the trial could write to memory that is not its own; an operator who knows the host can allow this pair of GPU and directory",
			strings.Join(vm.Reasons, "; "))
	}
	return checkGates(system(p.o.Root))
}

// known is a verdict of this process that still holds. A hang bans the GPU and
// the file system whatever else changes.
func (p *Prober) known(uuid, dir string, key gpu.VerdictKey) (gpu.Verdict, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v, ok := p.hung[place{uuid, key.Device}]; ok {
		v.Dir, v.Cached = dir, true
		return v, true
	}
	v, ok := p.verdicts[Pair{uuid, dir}]
	v.Cached = true
	return v, ok && lasting(v) && v.Key == key && !p.o.Fresh
}

// remember keeps a new verdict, in a file too if it was tried.
func (p *Prober) remember(uuid, dir string, v *gpu.Verdict) {
	if lasting(*v) {
		if err := p.save(uuid, dir, *v); err != nil {
			v.Notes = append(v.Notes, fmt.Sprintf("the verdict is not kept for the next start: %v", err))
		}
	}
	p.keep(uuid, dir, *v)
}

func (p *Prober) keep(uuid, dir string, v gpu.Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if v.Name == nameHung && v.Key.Device != "" {
		p.hung[place{uuid, v.Key.Device}] = v
	}
	if _, ok := p.verdicts[Pair{uuid, dir}]; !ok && len(p.verdicts) >= verdictsMax {
		clear(p.verdicts) // they are found out, or loaded, again
	}
	p.verdicts[Pair{uuid, dir}] = v
}

// refuse turns a verdict into a refusal.
func refuse(v gpu.Verdict, f *finding) gpu.Verdict {
	v.State, v.Code, v.Name, v.Reason = gpu.VerdictRefused, f.code, f.name, clip(f.reason)
	return v
}

// lasting says whether a verdict would be the same if it were found out again
// now: not one that was cut short, or that the child could not give.
func lasting(v gpu.Verdict) bool {
	if !v.Tried {
		return false
	}
	switch v.Name {
	case nameInterrupted, nameDied, nameAnswer, nameChanged:
		return false
	}
	return true
}
